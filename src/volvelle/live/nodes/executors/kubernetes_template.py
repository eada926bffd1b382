"""The operator's template of the pods of jobs."""

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Object, mistakes
from volvelle.live.nodes.executors.kubernetes_jobs import main_container
from volvelle.model.problems import Problem


def read_template(api: KubernetesApi, name: str, work: str) -> Object:
    """The PodTemplate ``name``, which has to mount a volume at ``work``. Raises `Problem`."""
    path = f"api/v1/namespaces/{api.namespace}/podtemplates/{name}"
    try:
        with mistakes("read the template of pods"):
            template: Object = api.get(path).get("template", {})
    except Problem as problem:
        if isinstance(problem.__cause__, ApiRefusal) and problem.__cause__.code == 404:
            raise Problem(
                f"there is no PodTemplate {name!r} in the namespace {api.namespace!r}",
                mend="apply one (docs/how-to/run-on-kubernetes.md), or name it with template=",
            ) from None
        raise
    _check(template, name, work)
    return template


def _check(template: Object, name: str, work: str) -> None:
    """Raise `Problem` for a template of pods that no job can run in."""
    spec = template.get("spec") or {}
    if not spec.get("containers"):
        raise Problem(
            f"the PodTemplate {name!r} has no container",
            mend="give it one with an image that has volvelle",
        )
    mounts = [each["mountPath"] for each in main_container(spec).get("volumeMounts", ())]
    if not any(work == mount or work.startswith(f"{mount.rstrip('/')}/") for mount in mounts):
        raise Problem(
            f"the PodTemplate {name!r} mounts nothing at {work}: checkpoints would be lost with their pods",
            mend="mount a volume there that all nodes share, or name another folder with work=",
        )
