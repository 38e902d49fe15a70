#!/usr/bin/env bash
# Checks a model, compares it with the one of the base branch, and writes a page. `action.yml` runs it.
# MODEL, BASE, ROOT and STRICT are the inputs of the action.
set -euo pipefail

folder=$(mktemp -d)
summary="$folder/summary.md"
strict=()
[ "${STRICT:-false}" = true ] && strict=(--strict)
source_root=(--source-root "${ROOT:-.}")

failed=false
jax2onnx check "$MODEL" "${source_root[@]}" --format sarif >"$folder/findings.sarif" || true
code=0
jax2onnx check "$MODEL" "${source_root[@]}" ${strict[@]+"${strict[@]}"} >"$folder/check.txt" || code=$?
[ "$code" -gt 1 ] && exit "$code"
[ "$code" -eq 1 ] && failed=true
# GitHub shows these beside the lines.
jax2onnx check "$MODEL" "${source_root[@]}" --format lines |
    sed -nE 's/^([^:]+):([0-9]+):([0-9]+): (error|warning): (.*)$/::\4 file=\1,line=\2,col=\3::\5/p'

against=()
{
    echo "### \`$(basename "$MODEL")\`"
    echo
    echo '```text'
    cat "$folder/check.txt"
    echo '```'
} >"$summary"
if [ -n "${BASE:-}" ]; then
    against=(--against "$BASE")
    code=0
    jax2onnx diff "$BASE" "$MODEL" "${source_root[@]}" >"$folder/diff.txt" || code=$?
    [ "$code" -gt 1 ] && exit "$code"
    {
        echo
        echo "Since the base branch:"
        echo
        echo '```text'
        # A comment has room for 65,536 characters.
        head -c 40000 "$folder/diff.txt"
        echo '```'
    } >>"$summary"
fi
page="$folder/$(basename "${MODEL%.onnx}").html"
jax2onnx view "$MODEL" "${source_root[@]}" ${against[@]+"${against[@]}"} --output "$page"

cat "$summary" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
{
    echo "folder=$folder"
    echo "summary=$summary"
    echo "findings=$folder/findings.sarif"
    echo "page=$page"
    echo "failed=$failed"
} >>"${GITHUB_OUTPUT:-/dev/stdout}"
