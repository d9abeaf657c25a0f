"""Whether the images on machines have the content that the mirror has under their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs, on_every, unjudged

Digests = Mapping[str, str]


def from_mirror(setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[str]:
    """Return the names (repository:tag) of all images on machines that are named after the mirror."""
    return sorted({name for seen in setups.values() for name in _mirrored(seen, expected)})


def other_images(setups: Mapping[str, MachineSetup], digests: Digests, expected: ExpectedGuest) -> list[Mismatch]:
    """Return images on machines whose digest is not the one that the mirror gives for the name.

    Args:
        digests: of the mirror, by repository:tag; without those that it does not have.
    """
    if expected.leaves.images_from_mirror is None or not expected.runtime_process:
        why = "product.yml does not say that images are named after the mirror, or the runtime is not known"
        return [unjudged("the content of images", why, whole=True)]

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        own = _mirrored(seen, expected)
        if not own:
            yield Mismatch(name, f"images of {expected.image_prefix}", "none")
        for image, digest in sorted(own.items()):
            if image in digests:
                yield from differs(f"{name} {image}", "digest of the mirror", digests[image], digest)
            else:
                yield Mismatch(f"{name} {image}", "an image that the mirror has", "it does not")

    return on_every(expected.nodes, setups, judge)


def _mirrored(seen: MachineSetup, expected: ExpectedGuest) -> Digests:
    prefix = f"{expected.image_prefix}/"
    return {name.removeprefix(prefix): digest for name, digest in seen.images.items() if name.startswith(prefix)}
