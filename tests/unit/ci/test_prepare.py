"""What every job sources first: which project its commands work on, as at a desk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.paths import packaged_dir

SECONDS = 30


@pytest.mark.parametrize("product", ["", "ci/product.yml"])
def test_a_job_works_on_its_checkout(tmp_path: Path, product: str) -> None:
    team, programs = tmp_path / "team", tmp_path / "home" / ".venv" / "bin"
    team.mkdir()
    programs.mkdir(parents=True)
    (programs / "vmatrix").write_text('#!/bin/sh\nprintf \'%s:%s\' "$VMATRIX_PROJECT" "$VMATRIX_PRODUCT_FILE"\n')
    (programs / "vmatrix").chmod(0o755)
    given = {"CI_PROJECT_DIR": str(team), "MATRIX_HOME": str(tmp_path / "home"), "MATRIX_PRODUCT": product}
    done = subprocess.run(
        ["/bin/sh", "-euc", f". {packaged_dir()}/ci/prepare; vmatrix"],
        env={"PATH": "/usr/bin:/bin", **given},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == f"{team}:{team / product if product else ''}", done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "team"], "nothing beside the checkout"


def test_a_checkout_of_another_user_is_a_repository_and_git_keeps_the_settings_it_was_given(tmp_path: Path) -> None:
    program = tmp_path / "home" / ".venv" / "bin" / "vmatrix"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\ngit config --get-regexp '^(safe|user)[.]'\n")
    program.chmod(0o755)
    given = {"CI_PROJECT_DIR": str(tmp_path), "MATRIX_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    settings = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "A"}
    done = subprocess.run(
        ["/bin/sh", "-euc", f". {packaged_dir()}/ci/prepare; vmatrix"],
        env={"PATH": "/usr/bin:/bin", **given, **settings},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("user.name A\nsafe.directory *\n", "")


def test_a_job_in_vmatrix_own_image_installs_nothing(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vmatrix").write_text(
        "#!/bin/sh\nprintf '%s:' \"$VMATRIX_PROJECT\"; git config safe.directory\n"
    )
    for name in ("apt-get", "python3"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho called >&2; exit 9\n")
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    given = {"CI_PROJECT_DIR": str(tmp_path / "team"), "VMATRIX_REVISION": "1-abc", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", "-euc", f". {packaged_dir()}/ci/prepare; vmatrix"],
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **given},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'team'}:*\n", "")


MADE_OF = "made of the requirements of then\n"


@pytest.mark.parametrize(
    ("made_of", "reused"),
    [
        (None, True),  # somebody's own, such as the image's
        (MADE_OF, True),
        ("other requirements\n", False),
    ],
    ids=["given", "same", "another"],
)
def test_what_an_earlier_job_installed_is_used_for_the_same_requirements_alone(
    tmp_path: Path, made_of: str | None, reused: bool
) -> None:
    home, bin_ = tmp_path / "home", tmp_path / "bin"
    programs = home / ".venv" / "bin"
    programs.mkdir(parents=True)
    bin_.mkdir()
    (home / "pyproject.toml").write_text(MADE_OF)
    (programs / "vmatrix").write_text("#!/bin/sh\nprintf reused\n")
    if made_of is not None:
        (home / ".venv" / ".made-of").write_text(made_of)
    again = 'mkdir -p "$3/bin"; printf "#!/bin/sh\\nprintf anew" >"$3/bin/vmatrix"; chmod +x "$3/bin/vmatrix"'
    made = 'printf "#!/bin/sh\\n" >"$3/bin/python"; chmod +x "$3/bin/python"'
    python = f'#!/bin/sh\ncase "$2" in venv) {again}; {made};; esac\n'
    for name, text in {"python3": python, "git": "#!/bin/sh\n", "ssh": "#!/bin/sh\n"}.items():
        (bin_ / name).write_text(text)
    for program in (*bin_.iterdir(), *programs.iterdir()):
        program.chmod(0o755)
    given = {"CI_PROJECT_DIR": str(tmp_path), "MATRIX_HOME": str(home)}
    done = subprocess.run(
        ["/bin/sh", "-euc", f". {packaged_dir()}/ci/prepare; vmatrix"],
        env={"PATH": f"{bin_}:/usr/bin:/bin", **given},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("reused" if reused else "anew", "")
    assert reused or (home / ".venv" / ".made-of").read_text() == MADE_OF
