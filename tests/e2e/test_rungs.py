# SPDX-License-Identifier: Apache-2.0
"""What the program's SIMD variants (docs/architecture.md, ISA rungs) may contain."""
import re
import subprocess

from harness import BINARY

# AVX512_BF16's: CPUs that take the rung avx512-vnni may lack them.
BF16_INSTRUCTION = re.compile(r"\t(vdpbf16ps|vcvtneps2bf16|vcvtne2ps2bf16)\b")


def test_only_the_rung_that_multiplies_bf16_has_instructions_for_it():
    listing = subprocess.run(["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", BINARY], capture_output=True,
                             text=True, check=True, timeout=300).stdout
    function, found = "", set()
    for line in listing.splitlines():
        if line.endswith(">:"):
            function = line
        elif BF16_INSTRUCTION.search(line):
            found.add(function)
    assert found, "no function with bf16 instructions: is the program built in full?"
    others = [name for name in found if "Bf16Lanes" not in name]  # attention_tile.cpp; multiplies_bf16() chooses it
    assert not others, others
