"""`vmatrix artifacts list | newer | build | module | gc | prune | serve`."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Annotated

import typer
from rich.measure import Measurement
from rich.table import Table

from harness.artifacts import catalogue as entries
from harness.artifacts import go_toolchain, gomod, refs, upstream_releases
from harness.artifacts.product.offer import Offer
from harness.artifacts.recipe import ArtifactLimits, Ref, Source
from harness.artifacts.serving import Supply, serving
from harness.artifacts.store import Store, remove_stale, stale_artifacts
from harness.cell.product import kinds as products
from harness.cli import options
from harness.cli.artifacts_progress import showing
from harness.cli.options import AsJson
from harness.cli.output import show_rows
from harness.cli.plain import CommandSet
from harness.errors import BadInput
from harness.files import read_text
from harness.paths import (
    MATRIX,
    PACKAGED,
    cache_dir,
    enclosing_project,
    named_project,
    packaged_dir,
    project_dir,
    settings_dir,
)
from harness.providers import offer_of
from harness.session import refusals
from harness.session.selection import choose
from harness.spec import load_spec
from harness.spec.dates import ending
from harness.spec.project import Project, timeouts_of, write_in_project
from harness.spec.settings import load_settings
from harness.streams import plain_console

out = plain_console(soft_wrap=False)
SOON = timedelta(days=90)


def newer(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME[@VERSION]", help="Programs or `kubernetes`; default: all. A version: that one."),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print what adds the Kubernetes releases, for `git apply`, and nothing else.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write the newer patch versions into matrix/artifacts.yml of the project.")
    ] = False,
) -> None:
    """Say which newer releases the Go module proxy lists, and which values' support ends within 90 days."""
    if diff and (write or names):
        raise BadInput("--diff takes no names and excludes --write", hint="leave out one of them")
    limits = _limits()
    catalogue = entries.load()
    if write:
        _write(catalogue, names or [], limits)
        return
    search = upstream_releases.find_newer(catalogue, limits)
    releases = [release for release in search.found if not names or release.module in names]
    if diff:
        _print_diff(releases, limits)
        return
    rows = [(release.module, release.version, release.listed) for release in releases]
    if rows:
        show_rows(out, ("module", "newer", "the catalogue has"), rows)
    else:
        out.print("nothing is newer")
    for name, reason in search.unlisted.items():
        out.print(f"{name}: not known: {reason.splitlines()[0]}", soft_wrap=True)
    for line in _support(datetime.now(UTC).date()):
        out.print(line, soft_wrap=True)
    if any(release.module == entries.KUBERNETES for release in releases) and not PACKAGED.is_dir():
        out.print("`vmatrix artifacts newer --diff` prints what adds these Kubernetes releases")
    if any(
        catalogue.of_minor(release.module, release.version)
        for release in releases
        if release.module in catalogue.programs
    ):
        out.print("`vmatrix artifacts newer --write` adds the patch versions to a project")


def _write(catalogue: entries.Catalogue, names: Sequence[str], limits: ArtifactLimits) -> None:
    """Write newer patch versions into the project's file; nothing if one that was named cannot be had."""
    project = project_dir()
    if project == packaged_dir():
        raise BadInput(
            "--write adds versions to a project, and this is vmatrix's own checkout",
            hint=f"change {entries.CATALOGUE.name} here: docs/extending.md",
        )
    every = all("@" in name for name in names) and names
    releases = () if every else upstream_releases.find_newer(catalogue, limits).found
    made = upstream_releases.additions(catalogue, releases, names, limits)
    for name, why in made.left_out.items():
        out.print(f"left out: {name}: {why}", soft_wrap=True)
    if not made.made:
        out.print("nothing to write")
        return
    file = project / MATRIX / entries.ADDED
    text = upstream_releases.with_versions(read_text(file) if file.exists() else "", made.made)
    entries.check(file, text)
    write_in_project(file, text)
    for release in made.made:
        out.print(f"written: {release.name} {release.version}: {file}", soft_wrap=True)
    out.print("cells get such a version where a variable names it, as in matrix/axes.yml:")
    for line in dict.fromkeys(f'  {refs.version_variable(release.name)}: "{release.version}"' for release in made.made):
        out.print(line)


def _print_diff(releases: Sequence[upstream_releases.Newer], limits: ArtifactLimits) -> None:
    if PACKAGED.is_dir():
        raise BadInput("--diff is for a checkout of vmatrix", hint="clone vmatrix, or leave out --diff")
    versions = [release.version for release in releases if release.module == entries.KUBERNETES]
    parts = [upstream_releases.read_parts(version, limits) for version in versions]
    text = upstream_releases.render_diff(parts, PACKAGED.parents[1])
    out.print(text, end="", soft_wrap=True)


def _support(today: date) -> list[str]:
    axes = load_spec(project_dir() / "matrix", expired_ok=True).axes
    return [
        f"{axis} {value}: support {'ends' if day >= today else 'ended'} on {day}"
        for axis, value, day in ending(axes, today + SOON)
    ]


app = CommandSet(no_args_is_help=True, help="Build, download, cache and serve binaries and container images.")
app.command()(newer)
WIDEST = 200  # columns of a table, wherever it is printed

SourceOption = Annotated[
    Source, typer.Option(help="Source of binaries; `auto`: download, or build if the release sites do not answer.")
]


@app.command("list")
def list_(source: SourceOption = Source.AUTO, as_json: AsJson = False) -> None:
    """List artifacts, their sources, and which of them are cached."""
    store = Store(source=source)
    every = [Ref(name, version) for name in store.catalogue.names() for version in store.catalogue.versions(name)]
    cached = {ref: store.cached(ref) for ref in every}
    how = {ref: entry.source if entry else sources(store, ref.name, ref.version) for ref, entry in cached.items()}
    if as_json:
        rows = [
            {"name": r.name, "version": r.version, "source": how[r], "cached_bytes": f.size if f else None}
            for r, f in cached.items()
        ]
        out.print(json.dumps(rows, indent=2), soft_wrap=True)
        return
    table = Table("name", "version", "source", "state", "size", box=None)
    for ref, entry in cached.items():
        size = f"{entry.size / 1e6:.0f} MB" if entry is not None else ""
        table.add_row(ref.name, ref.version, how[ref], "cached" if entry is not None else "not cached", size)
    wide = plain_console(soft_wrap=False, width=WIDEST)
    needed = Measurement.get(wide, wide.options, table).maximum
    whole = plain_console(soft_wrap=False, width=max(out.width, needed))
    whole.print(table)  # on a narrow terminal as well: names are to be copied


def sources(store: Store, name: str, version: str) -> str:
    """Return the sources that an artifact can come from."""
    if name.startswith((entries.IMAGE_PREFIX, entries.LAYER_PREFIX)):
        return store.recipe(Ref(name, version)).source
    if store.source is not Source.AUTO:
        return str(store.source)
    has_release = store.catalogue.program(name).recipes(version).release is not None
    return "release, gomod" if has_release else "gomod"


@app.command()
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME[@VERSION]", help="Artifacts; default version: all.")
    ] = None,
    kubernetes: Annotated[str, typer.Option(help="Build everything for this Kubernetes version.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Build the whole catalogue.")] = False,
    source: SourceOption = Source.AUTO,
) -> None:
    """Download or build artifacts into the cache; cached artifacts are kept."""
    store = _store(source)
    chosen = list(refs.parse(store.catalogue, names or []))
    if kubernetes:
        chosen += [*refs.host(store.catalogue, kubernetes), *refs.for_kubernetes(store.catalogue, kubernetes)]
    if everything:
        chosen += refs.parse(store.catalogue, store.catalogue.names())
    if not chosen:
        raise BadInput("nothing selected: give names, --kubernetes or --all", hint="see `vmatrix artifacts build -h`")
    with showing(out) as progress:
        made = store.ensure(chosen, progress)
    go_toolchain.trim_caches()
    size = sum(artifact.size for artifact in made.values()) / 1e6
    out.print(f"{len(made)} artifacts, {size:.0f} MB, in {store.root}")


@app.command()
def module(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Module in the catalogue: kubernetes, etcd, ...")],
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Upstream version, without v.")],
) -> None:
    """Generate go.mod and go.sum for building a version; commit the result. Works in vmatrix's own checkout."""
    _require_checkout()
    out.print(f"wrote {gomod.generate(entries.load(), name, version, limits=_limits())}")


@app.command()
def gc(
    keep_mib: Annotated[
        int, typer.Option("--keep-mib", min=0, metavar="MIB", help="How much of what was compiled stays, the newest.")
    ] = go_toolchain.KEEP_MIB,
) -> None:
    """Remove most of what Go compiled and unpacked for builds; artifacts and downloaded modules stay.

    `vmatrix run` and `vmatrix artifacts build` do it after they have built something.
    """
    out.print(f"{go_toolchain.trim_caches(keep_mib, always=True) / 1e6:.0f} MB freed")


@app.command("prune")
def prune_(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")] = False,
) -> None:
    """Remove artifacts that the catalogue no longer declares, what no project's product uses, and killed builds."""
    freed = 0
    outside = enclosing_project() is None and named_project() is None
    project = None if outside else Project.load(load_settings(settings_dir()).settings, expired_ok=True)
    former = [
        (f"{entry.ref} {entry.directory.name}", entry.size, partial(remove_stale, entry))
        for entry in stale_artifacts(Store())
    ]
    unused = [(entry.name, entry.size, partial(products.remove, entry)) for entry in products.stale(project)]
    for name, size, remove in (*former, *unused):
        if not dry_run and not remove():
            out.print(f"{name}: in use, kept")
            continue
        freed += size
        out.print(f"{name}: {size / 1e6:.0f} MB")
    out.print(f"{freed / 1e6:.0f} MB {'would be freed' if dry_run else 'freed'}")


@app.command()
def serve(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the mirror.")] = "127.0.0.1:8080",
    registry: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the registry.")] = "127.0.0.1:5000",
    kubernetes: Annotated[
        list[str] | None, typer.Option(help="Serve the images of this version; can be repeated; default: the newest.")
    ] = None,
    add_ons: Annotated[bool, typer.Option("--add-ons", help="Serve the images of all add-ons, too.")] = False,
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="TIER",
            help="Serve what the product of this project asks for in this tier's cells instead.",
            autocompletion=options.tiers,
        ),
    ] = None,
    source: SourceOption = Source.AUTO,
) -> None:
    """Serve the cache and a registry until interrupted."""
    if tier is not None and (kubernetes or add_ons):
        raise BadInput("--tier says what is served; leave out --kubernetes and --add-ons")
    refusals.refuse(refusals.SERVE, refusals.Wish(listen=(("--listen", listen), ("--registry", registry))))
    store = _store(source)
    offer = _of_tier(tier, store) if tier is not None else None
    versions = kubernetes or [next(iter(store.catalogue.kubernetes))]
    images = [ref for version in versions for ref in refs.images(store.catalogue, version)] if offer is None else []
    if add_ons:
        images += refs.add_ons(store.catalogue)
    with showing(out) as progress:
        made = (*offer.programs, *offer.images) if offer is not None else ()
        store.ensure([*made, *images, refs.newest(store.catalogue, "registry")], progress)
        trees = offer.publish(store, cache_dir(), progress) if offer is not None else {}
    images = [*images, *offer.images] if offer is not None else images
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    supply = Supply(versions[0], images, store, uploads=offer.uploads if offer is not None else ())
    try:
        with serving(supply, images, mirror=listen, registry=registry) as running:
            out.print(f"binaries at http://{listen}/bin/NAME/VERSION/FILE", soft_wrap=True)
            for tree in trees.values():
                out.print(f"{len(tree.sums)} files at http://{listen}/files/{tree.key}/", soft_wrap=True)
            out.print(f"{running.published} images at {registry}; press Ctrl-C to stop", soft_wrap=True)
            running.wait()
    except KeyboardInterrupt:
        out.print("stopped")


def _of_tier(tier: str, store: Store) -> Offer:
    """Return what the project's product asks for in the cells of a tier."""
    project = Project.load(load_settings(settings_dir()).settings, expired_ok=True)
    cells = [selected.cell for selected in choose(project.spec, project.settings, tier=tier)]
    return offer_of(project, cells, store.catalogue, project.spec.tiers[tier].suites)


def _store(source: Source) -> Store:
    return Store(source=source, limits=_limits())


def _limits() -> ArtifactLimits:
    return ArtifactLimits.of(timeouts_of(load_settings(settings_dir()).settings))


def _require_checkout() -> None:
    """Refuse to write among vmatrix's own files where they are installed ones. Raises BadInput."""
    if PACKAGED.is_dir():
        raise BadInput(
            f"this changes vmatrix's own files, which are installed in {PACKAGED.parent}",
            hint="run it in a checkout of vmatrix that is installed with `pip install --editable .`",
        )
