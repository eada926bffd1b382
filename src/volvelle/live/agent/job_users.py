"""The users of the system as whom jobs run, where the agent is root and has `run_as`.

An agent's files stay its own: its folders can be passed through, and not be listed (0711). A job has its
folder in ``work`` for itself, and in the attempt's folder the control block and the metrics file.
"""

import os
import pwd
from collections.abc import Iterable, Mapping
from pathlib import Path

from volvelle.model.problems import Problem

EVERYBODY = "*"


def check_run_as(run_as: Mapping[str, str], folders: Iterable[Path]) -> None:
    """Let jobs of ``run_as`` (the system's users by ours, `EVERYBODY` for all others) through ``folders``.

    Raises `Problem` if jobs cannot run so.
    """
    if not run_as:
        return
    if os.geteuid() != 0:
        raise Problem("only root may run jobs as other users", mend="leave run_as out")
    for name in run_as.values():
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise Problem(f"run_as: this machine has no user {name!r}", mend="add it") from None
        if found.pw_uid == 0:
            raise Problem("run_as: jobs as root may do everything", mend="name another user")
    for folder in folders:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        let_through(folder)
        for above in folder.absolute().parents:
            if not above.stat().st_mode & 0o001:
                raise Problem(
                    f"jobs that run as other users cannot come to {folder}: {above} is closed to them",
                    mend=f"put the folder elsewhere, as in /var/lib/volvelle, or: chmod o+x {above}",
                )


def job_user(run_as: Mapping[str, str], user: str) -> pwd.struct_passwd | None:
    """As whom the jobs of ``user`` run; None: as the agent. Raises PermissionError if as nobody."""
    if not run_as:
        return None
    name = run_as.get(user, run_as.get(EVERYBODY))
    try:
        if name is not None:
            return pwd.getpwnam(name)
    except KeyError:
        pass
    raise PermissionError(f"the node has no user as whom jobs of {user!r} may run (run_as)")


def let_through(folder: Path) -> None:
    """Let everybody pass through ``folder``, to its own files in it. Raises OSError."""
    folder.chmod(folder.stat().st_mode & 0o7777 | 0o011)


def give(path: Path, user: pwd.struct_passwd) -> None:
    """Give ``path`` to ``user``, who alone may read it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fchmod(descriptor, 0o700 if path.is_dir() else 0o600)
        os.fchown(descriptor, user.pw_uid, user.pw_gid)
    finally:
        os.close(descriptor)


def give_as_it_is(user: pwd.struct_passwd | None, path: Path) -> None:
    """Give ``path``, also a link, to ``user``; None: it stays the agent's. Raises OSError."""
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
