#!/usr/bin/env bash
# Install the wheel into an empty environment without extras, and use it there.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(ls -t "$1"/*.whl | head -1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --constraint "$here/constraints.txt" torch
"$folder/venv/bin/pip" install --quiet --constraint "$here/constraints.txt" "$wheel"
cd "$folder"
export OMP_NUM_THREADS=1
ocgl="$folder/venv/bin/ocgl"
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.util, sys
extras = [name for name in ("matplotlib", "plotly", "jinja2", "torch_geometric") if importlib.util.find_spec(name)]
sys.exit(f"the environment has extras: {extras}" if set(extras) - {"jinja2"} else 0)  # torch brings jinja2
PYTHON
"$ocgl" run --dataset digits --strategy linear --set batch_size=60 --out run > out.txt
grep -q "pip install" out.txt  # the page needs an extra, and that is said
rm run/result.json
"$ocgl" run --resume run > /dev/null
test -f run/result.json
"$ocgl" bench digits --out bench --strategies slda --grids coarse --seeds 2 --workers 1 --set batch_size=120 > /dev/null
"$ocgl" results bench --format csv | grep -q slda
"$ocgl" strategies > /dev/null
"$ocgl" check ridge > /dev/null
if "$ocgl" report bench 2> error.txt; then echo "a report without its extra"; exit 1; fi
grep -q "ocgl\[report\]" error.txt
echo "dist: wheel $(basename "$wheel") works without extras"
