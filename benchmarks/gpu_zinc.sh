#!/usr/bin/env bash
# The ZINC experiments of the graph transformers on a GPU, as far as a bound of time reaches.
#
#   benchmarks/gpu_zinc.sh OUTPUT [SECONDS]
#
# The four share SECONDS (600); one that does not end in its share is stopped and goes on when the
# same command is given again. UNIONSNN_MIRROR names a copy of ZINC where there is no network.
# ACCELERATOR=cpu tries the script out; further overrides come from OVERRIDES.
set -euo pipefail
shopt -s nullglob
output=${1:?usage: benchmarks/gpu_zinc.sh OUTPUT [SECONDS]}
share=$((${2:-600} / 4))
accelerator=${ACCELERATOR:-gpu}
mkdir -p "$output"
unionsnn info | tee "$output/info.txt"
if [ "$accelerator" = gpu ]; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee "$output/card.csv"
fi
for name in gps union_gps graphormer unionormer; do
  # What SIGTERM stops keeps the state of its last epochs; timeout says so by status 124.
  timeout --signal=TERM --kill-after=30 "$share" unionsnn train "experiment=zinc/$name" \
    protocol.seeds=1 "trainer.accelerator=$accelerator" trainer.progress=plain \
    "paths.output=$output" ${OVERRIDES:-} || echo "$name: stopped with status $?"
  if [ "$accelerator" = gpu ]; then
    nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader
  fi
done
for file in "$output"/zinc10k/*/*/logs/00/metrics.csv; do
  echo "$file: $(($(wc -l < "$file") - 1)) epochs"
  head -n 1 "$file"
  tail -n 1 "$file"
done
