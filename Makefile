# The two commands to start with. For everything else, see `tox list` and `vmatrix --help`.
PYTHON ?= python3
TOX := .venv/bin/tox

.PHONY: demo test
demo: $(TOX)
	$(TOX) run -e demo

test: $(TOX)
	@status=0; set -x; \
	$(TOX) run-parallel --parallel 2 --parallel-no-spinner -e lint,contract,type,embedded,package,unit,lowest || status=$$?; \
	$(TOX) run -e smoke || status=$$?; \
	exit $$status

# Debian's python3 has no venv. Root may install it.
$(TOX): pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  test "$$(id -u)" = 0 || { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 2; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-venv; }
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check 'tox>=4.23' 'tox-uv>=1.20'
	@touch $@
