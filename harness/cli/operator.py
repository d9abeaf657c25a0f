"""`vmatrix operator explain | releases | image | log | crds | deliver | backup`: commands that people give.

What pods run is in modules of its own, so that a pod starts without the others (harness/cli/root.py).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from harness.artifacts.own import push as pushing
from harness.artifacts.own.push import check_name
from harness.artifacts.recipe import ArtifactLimits
from harness.artifacts.store import FILES, Store
from harness.cli import operator_execute, operator_manifests, operator_run
from harness.cli.artifacts_progress import showing
from harness.cli.options import AsJson
from harness.cli.output import folding, show_rows, tell_written, wide_console
from harness.cli.plain import CommandSet
from harness.errors import BadInput
from harness.files import write_atomically
from harness.operator import backups
from harness.operator.api.cluster import CurrentOperation
from harness.operator.api.crds import files, with_tables
from harness.operator.decide.due import Wait
from harness.operator.decide.explain import Against, ClusterOutlook
from harness.operator.decide.explain import explain as outlooks
from harness.operator.decide.variables import FILE, as_text, load_releases, of_matrix
from harness.operator.deliveries import declared_in
from harness.operator.deliveries import deliver as deliver_revision
from harness.operator.execute.logs import show_log_of
from harness.operator.kubectl import open_usual, usual_namespace
from harness.paths import packaged_dir, settings_dir
from harness.spec.project import timeouts_of
from harness.spec.settings import load_settings
from harness.streams import plain_console

app = CommandSet(no_args_is_help=True, help="Clusters as declared objects: what the operator needs, does and did.")
backup_app = CommandSet(
    no_args_is_help=True, help="Backups of etcd that the operator made: which there are, and copies."
)
out = wide_console()
plain_out = plain_console()
FULL_SHA = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
BACKUP_HEADINGS = ("name", "cluster", "phase", "made by", "age", "MiB", "keys", "location")
Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Cluster that the operator works in; default: as kubectl's.")
]
BackupName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the EtcdBackup.")]
BackupNamespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the EtcdBackups; default: as kubectl's.")
]


@app.command()
def explain(
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE", help="What is declared, and Machines; -: standard input."),
    ],
    against: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Compare this object of the file with what there is."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE", help="Namespace of objects that name none; default: as kubectl's."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what the operator would do for a ClusterDeployment or an EtcdCluster, and why, without doing it.

    Without --against, nothing is deployed yet; if the file has no Machines, each set has as many as it wants.
    """
    if kubeconfig is not None and against is None:
        raise BadInput("--kubeconfig needs --against CLUSTER", hint="name the cluster to compare the file with")
    source = Path("/dev/stdin") if str(file) == "-" else file
    compared = Against(against, kubeconfig) if against is not None else None
    clusters = outlooks(source, namespace or usual_namespace(kubeconfig), compared, datetime.now(UTC))
    if as_json:
        out.print_json(json.dumps([cluster.json() for cluster in clusters]))
        return
    for cluster in clusters:
        _show_outlook(cluster)


def _show_outlook(cluster: ClusterOutlook) -> None:
    """Print what is to do for one cluster, with the reasons."""
    desired = cluster.desired
    meta = desired.wish.metadata
    out.print(f"{desired.wish.kind} {meta.namespace}/{meta.name}: {desired.release}")
    machines = folding("machine", "address", "set", "groups")
    for host in desired.hosts:
        machines.add_row(host.machine, host.address, host.set_name, " ".join(host.groups))
    out.print("machines, assumed as the sets ask:" if cluster.assumed else "machines:")
    out.print(machines)
    out.print("to do:" if cluster.steps else "to do: nothing")
    for number, step in enumerate(cluster.steps, 1):
        disruptive = ", disruptive" if step.disruptive else ""
        out.print(f"  {number}. {step.operation}{disruptive}: {step.why}")
        out.print(f"     machines: {', '.join(step.machines) or 'none yet'}")
    out.print(f"now: {_next_step(cluster)}")


def _next_step(cluster: ClusterOutlook) -> str:
    if isinstance(cluster.verdict, CurrentOperation):
        return f"{cluster.verdict.operation} begins"
    if isinstance(cluster.verdict, Wait):
        later = cluster.verdict.again_seconds
        again = f" (again in {later:.0f} s)" if later is not None else ""
        return f"waits: {cluster.verdict.reason}: {cluster.verdict.message}{again}"
    return "nothing begins"


@app.command()
def releases(
    write: Annotated[bool, typer.Option("--write", help="Write the table from matrix/axes.yml instead.")] = False,
) -> None:
    """Print the Kubernetes versions that the operator knows, and the versions of what belongs to each."""
    if write:
        write_atomically(FILE, as_text(of_matrix()))
        out.print(str(FILE))
        return
    known = load_releases()
    names = list(dict.fromkeys(name for versions in known.kubernetes.values() for name in versions))
    table = folding("kubernetes", *names)
    for version, versions in known.kubernetes.items():
        table.add_row(version, *(versions.get(name, "") for name in names))
    out.print(table)
    others = folding("component or add-on", "version unless you name another")
    for name, version in known.defaults.items():
        others.add_row(name, version)
    out.print(others)


@app.command()
def image(
    push: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT][/PATH]", help="Push it there, as PATH/vmatrix:TAG.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Push it under this tag, too; can be repeated.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Serve it in the registries of this host's infra clusters.")
    ] = False,
    builder: Annotated[
        bool, typer.Option("--builder", help="Push or serve the image with BuildKit as well, which Deliveries need.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="The registry speaks plain HTTP, or its certificate is not trusted.")
    ] = False,
    user: Annotated[str, typer.Option(envvar="CI_REGISTRY_USER", help="User of the registry.")] = "",
    password: Annotated[
        str, typer.Option(envvar="CI_REGISTRY_PASSWORD", show_default=False, help="The user's password or token.")
    ] = "",
) -> None:
    """Make vmatrix's own image, for the operator, its executors and pipelines; print its name, size and digest."""
    if builder and not (push or publish):
        raise BadInput("--builder says what is pushed or served as well", hint="give --push or --publish, too")
    if (tag or insecure) and not push:
        raise BadInput("--tag and --insecure say how the image is pushed; --push says where")
    if push is not None:
        check_name(push, tag or ())
    if push and bool(user) != bool(password):
        raise BadInput(f"--{'user' if user else 'password'} is given alone", hint="give both --user and --password")
    store = Store(limits=ArtifactLimits.of(timeouts_of(load_settings(settings_dir()).settings)))
    with showing(plain_console(stderr=True, soft_wrap=False)) as progress:
        made = pushing.obtain_image(store, progress)
        images = [made, *([pushing.obtain_builder(store, progress)] if builder else [])]
    name = f"{pushing.REPOSITORY}:{made.ref.version}"
    if push:
        login = pushing.Login(user, password)
        for artifact in images:
            tags = [artifact.ref.version, *(tag or [] if artifact is made else [])]
            pushing.push(artifact, push.rstrip("/"), tags, store, login=login, insecure=insecure)
    if publish:
        for artifact in images:
            pushing.publish(artifact, store)
    plain_out.print(f"reference  {push.rstrip('/') + '/' if push else ''}{name}")
    plain_out.print(f"size       {int(made.facts['size']) / 2**20:.0f} MiB")
    plain_out.print(f"digest     {made.facts['digest']}")
    plain_out.print(f"layout     {made.directory / FILES}")


@app.command()
def log(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A ClusterDeployment, or a Delivery, or delivery/NAME where both are.")
    ],
    which: Annotated[
        str,
        typer.Argument(metavar="WHICH", help="Operation, or what a revision begins with; default: the newest."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the object; default: as kubectl's.")
    ] = None,
) -> None:
    """Print the log of a cluster's operation or of a Delivery's build; while it runs, follow it to its end."""
    show_log_of(open_usual(kubeconfig), namespace or usual_namespace(kubeconfig), name, which, typer.echo)


@app.command()
def crds(
    write: Annotated[
        bool, typer.Option("--write", help="Write deploy/operator/crds and docs/operator/fields.md instead.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinitions of the operator's kinds, for `kubectl apply --server-side -f -`."""
    made = files()
    if not write:
        typer.echo("---\n".join(made.values()), nl=False)
        return
    folder = packaged_dir() / "deploy" / "operator" / "crds"
    page = packaged_dir() / "docs" / "operator" / "fields.md"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {folder / name: text for name, text in made.items()}
    texts[page] = with_tables(page.read_text(encoding="utf-8"))
    for path, text in texts.items():
        write_atomically(path, text)
    tell_written(texts)


@app.command()
def deliver(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File with one Delivery.")],
    revision: Annotated[str, typer.Option(metavar="SHA", help="The revision, as its full SHA.")],
    dotenv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write DELIVERY_URL and DELIVERY_IMAGE here, for GitLab.")
    ] = None,
    wait_seconds: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="How long it may take.")] = 1800.0,
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace if the file has none; default: as kubectl's.")
    ] = None,
) -> None:
    """Declare a Delivery of exactly one revision, and wait until it runs.

    Fails if the revision does not build, or is rolled back.
    """
    if not FULL_SHA.fullmatch(revision):
        raise BadInput(f"--revision {revision} is not a full SHA", hint="$CI_COMMIT_SHA, or `git rev-parse HEAD`")
    body = declared_in(file, revision, namespace or usual_namespace(kubeconfig))
    status = deliver_revision(open_usual(kubeconfig), body, seconds=wait_seconds, show=typer.echo)
    if dotenv is not None:
        write_atomically(dotenv, f"DELIVERY_URL={status.url or ''}\nDELIVERY_IMAGE={status.image or ''}\n".encode())
    typer.echo(f"image  {status.image}\nurl    {status.url or 'none'}")


@backup_app.command("list")
def list_backups(
    cluster: Annotated[str | None, typer.Option(metavar="CLUSTER", help="Only those of this cluster.")] = None,
    kubeconfig: Kubeconfig = None,
    namespace: BackupNamespace = None,
    as_json: AsJson = False,
) -> None:
    """List the EtcdBackups of a namespace, the newest of each cluster first."""
    where = namespace or usual_namespace(kubeconfig)
    listed = backups.rows(open_usual(kubeconfig), where, cluster, datetime.now(UTC))
    if as_json:
        out.print_json(json.dumps([backup.json() for backup in listed]))
        return
    if not listed:
        out.print(f"there is no EtcdBackup in namespace {where}")
        return
    show_rows(out, BACKUP_HEADINGS, [_backup_cells(backup) for backup in listed], whole=("name", "location"))


def _backup_cells(backup: backups.BackupRow) -> tuple[str, ...]:
    size = f"{backup.size_bytes / 2**20:.1f}" if backup.size_bytes is not None else ""
    keys = str(backup.keys) if backup.keys is not None else ""
    place = backup.location if backup.phase == "Verified" or not backup.said else backup.said
    return (
        backup.name,
        backup.cluster,
        backup.phase,
        backup.origin,
        backups.age_text(backup.age_seconds),
        size,
        keys,
        place,
    )


@backup_app.command("show")
def show_backup(
    name: BackupName, kubeconfig: Kubeconfig = None, namespace: BackupNamespace = None, as_json: AsJson = False
) -> None:
    """Show one EtcdBackup: how it is, and what was found out about its snapshot."""
    where = namespace or usual_namespace(kubeconfig)
    backup = backups.row_of(backups.backup_named(open_usual(kubeconfig), where, name), datetime.now(UTC)).json()
    if as_json:
        out.print_json(json.dumps(backup))
        return
    fields = {key.replace("_", " "): value for key, value in backup.items() if value not in (None, "")}
    typer.echo(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=200), nl=False)


@backup_app.command("get")
def copy_backup(
    name: BackupName,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; default: NAME.db in this folder.")] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Of the pod that reads the claim; default: the last executor's."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    namespace: BackupNamespace = None,
    as_json: AsJson = False,
) -> None:
    """Copy the snapshot of an EtcdBackup to a file, and check that it is the one that was verified.

    A pod of a minute mounts the claim and reads it: you need the right to create and delete pods, and `pods/exec`.
    A bucket is reached from here, with the keys of its Secrets, which you have to be allowed to read.
    """
    where = namespace or usual_namespace(kubeconfig)
    target = to or Path(f"{name}.db")
    size = backups.copy_snapshot(open_usual(kubeconfig), where, name, target, image)
    if as_json:
        out.print_json(json.dumps({"name": name, "file": str(target), "size_bytes": size}))
        return
    typer.echo(f"{target}: {size} bytes, as verified; it contains every secret of the cluster")


app.add_typer(backup_app, name="backup")
for command in (operator_execute, operator_manifests, operator_run):
    command.register(app)
