#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws kernels under the machine's roofs from what kernels_bench wrote.

    python bench/roofline.py bench/results/kernels.json docs/pictures/roofline.svg
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# Shown: kernels of SmolLM2's Q4_0 file, by their name in kernel_bench.cpp; the rest are in the JSON. Label, color, where the
# label stands (points).
SHOWN = {
    "gemm_bf16": ("prompt GEMM, bf16", "tab:blue", (-8, -14)),
    "gemm_int8": ("prompt GEMM, int8", "tab:cyan", (-8, 8)),
    "attention_prompt_1024": ("prompt attention at 1,024", "tab:green", (-100, -18)),
    "attention_prompt_7168": ("at 7,168", "tab:green", (4, -12)),
    "step_linear_q4_0_1": ("step product, 1 row", "tab:orange", (8, -4)),
    "step_linear_q4_0_4": ("4 rows", "tab:orange", (8, -4)),
    "step_linear_q4_0_16": ("16 rows", "tab:orange", (8, -4)),
    "attention_step_7680_1": ("step attention at 7,680", "tab:red", (8, -4)),
}
ROOFS = [("peak_int8", "int8 multipliers"), ("peak_bf16", "bf16 multipliers"), ("peak_f32", "f32 multipliers")]


def load(path):
    """Benchmark name to its row: the medians of the repetitions."""
    data = json.loads(pathlib.Path(path).read_text())
    rows = {row["run_name"]: row for row in data["benchmarks"] if row.get("aggregate_name") == "median"}
    return {name.removesuffix("/real_time"): row for name, row in rows.items()}


def draw(rows, out):
    bytes_per_second = rows["read_memory"]["bytes_per_second"]
    figure, axes = plt.subplots(figsize=(8, 5))
    least, most = 1, 4000
    roofs = [(name, label) for name, label in ROOFS if name in rows]  # bf16 where prompts are multiplied so
    for name, label in roofs:
        roof = rows[name]["FLOP/s"]
        ridge = roof / bytes_per_second
        axes.plot([ridge, most], [roof, roof], color="black", linewidth=1)
        axes.annotate(f"{label} {roof / 1e12:.2f} T/s", (most, roof), xytext=(-4, 3), textcoords="offset points", ha="right", fontsize=8)
    top = max(rows[name]["FLOP/s"] for name, _ in roofs) / bytes_per_second
    axes.plot([least, top], [least * bytes_per_second, top * bytes_per_second], color="black", linewidth=1)
    axes.annotate(f"read of 96 MiB {bytes_per_second / 1e9:.0f} GB/s", (least * 1.1, least * 1.2 * bytes_per_second), rotation=37, fontsize=8,
                  va="bottom")
    for name, (label, color, at) in SHOWN.items():
        x, y = rows[f"kernel/{name}"]["FLOP/byte"], rows[f"kernel/{name}"]["FLOP/s"]
        axes.plot(x, y, "o", color=color)
        axes.annotate(label, (x, y), xytext=at, textcoords="offset points", fontsize=8)
    axes.set(xscale="log", yscale="log", xlim=(least, most), xlabel="operations for a byte", ylabel="operations a second")
    axes.grid(which="major", linewidth=0.3)
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def table(rows):
    memory = rows["read_memory"]["bytes_per_second"]
    print(f"{'':28}{'FLOP/byte':>10}{'GFLOP/s':>10}{'GB/s':>8}   of the roof")
    for name, row in rows.items():
        if not name.startswith("kernel/"):
            continue
        peak = rows[row["label"]]["FLOP/s"]  # of the multipliers that it uses
        roof = min(peak, row["FLOP/byte"] * memory)
        print(f"{name.removeprefix('kernel/'):28}{row['FLOP/byte']:10.1f}{row['FLOP/s'] / 1e9:10.0f}{row['byte/s'] / 1e9:8.1f}   {row['FLOP/s'] / roof:.2f}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "isthmus", "font.family": "sans-serif"})
    rows = load(sys.argv[1])
    draw(rows, pathlib.Path(sys.argv[2]))
    table(rows)


if __name__ == "__main__":
    main()
