"""``volvelle attach kueue``: forecasts beside a running Kueue."""

from pathlib import Path
from typing import Annotated, Any

import typer

from volvelle.cli import options
from volvelle.incumbents.attach import any_command as usual


@options.besides(options.of_fields(usual.Following))
def kueue(
    objects: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Read objects from a folder of YAML or JSON, or a file, at each poll; no API is asked.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Else KUBECONFIG, ~/.kube/config, or the pod's account."),
    ] = None,
    context: Annotated[str, typer.Option(help="Of the kubeconfig.")] = "",
    print_manifest: Annotated[
        bool,
        typer.Option(
            "--print-manifest",
            help="Print a service account that may get, list and watch what is read; nothing is installed.",
        ),
    ] = False,
    **given: Any,
) -> None:
    """When each workload of this Kueue starts and ends, with the accuracy so far beside a moving average.

    Reads by a service account (get, list, watch), and writes nothing. --user takes a namespace.

    volvelle attach kueue --print-manifest | kubectl apply -f -

    volvelle attach kueue --from objects --once
    """
    from volvelle.incumbents.kueue.attach import incumbent

    if print_manifest:
        from volvelle.incumbents.kueue.manifest import MANIFEST

        print(MANIFEST, end="")
        return
    how = usual.Following(**given)
    if objects is not None:
        from volvelle.incumbents.kueue.folder import Folder

        usual.follow(Folder(objects), incumbent(), how)
        return
    from volvelle.incumbents.kueue.watch import Watch
    from volvelle.kubernetes_api import KubernetesApi

    api = KubernetesApi(str(kubeconfig or ""), context)
    with Watch(api, context or "kubernetes") as watch:
        usual.follow(watch, incumbent(), how)
