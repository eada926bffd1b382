"""``volvelle site import``: a site's scheduler in one file; each scheduler that sites have brings its own."""

import typer

from volvelle.core.systems import brought, modules_of

app = typer.Typer(no_args_is_help=True)
imports = typer.Typer(no_args_is_help=True)
app.add_typer(imports, name="import", help="Write a site's scheduler into one file.")


@app.callback()
def site() -> None:
    """The site whose scheduler is compared with others.

    volvelle site import slurm --local
    """


@imports.callback()
def site_import() -> None:
    """Write a site's scheduler into one file.

    volvelle site import slurm dump
    """


for _scheduler in sorted(modules_of("imports")):
    imports.command(_scheduler)(brought("imports", _scheduler))
