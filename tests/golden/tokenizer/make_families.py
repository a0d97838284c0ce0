# SPDX-License-Identifier: Apache-2.0
"""Writes the goldens of the tokenizer families, with the PyPI package tokenizers as the reference.

usage: make_families.py OUT_DIR

splits.json: for each published pre-tokenizer, the pieces of each text.
family_*.json: small tokenizer.json files in the published shape of each family, trained on the text below.
family_cases.json: for each of them, texts with their ids (special tokens parsed / taken as text) and the BOS policy.
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def split_then_bytes(regex: str):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


FAMILIES = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "qwen2": split_then_bytes(QWEN2),
    "llama3": split_then_bytes(LLAMA3),
}

FIXED = [
    "", " ", "  ", "\n", "\r\n", "\r", "\t", " \n", "\n ", "  \n\n  x", "a\r\n\r\nb", "x \r\n y", "tab\tand\t\ttab", "end  ", "end\n\n",
    "I'm you're we'll they'd it's I've don't", "HELLO'S DON'T I'LL WE'RE", "'s't're'", "it'\u017f o'\u212a", "rock 'n' roll''s",
    "l'\u00e9t\u00e9 na\u00efve caf\u00e9", "cafe\u0301 Stra\u00dfe \u1e9e \ufb01n", "0 12 345 6789 1234567890", "3.14159 -2e10 0x1F 1,000",
    "\u0663\u0664 \u0967\u0968\u0969 \u2163 \u00bd \u00b2 \u2460 \u3007\u4e00", "x1y22z333", "foo_bar fooBar FOO_BAR __init__",
    "http://x.y/z?a=1&b=%20#frag", "(a+b)*c == d; // !?\n\t}", "...!!!???\n\n\n---", "a!\r\n\r\n b?\n\n c", "#!/bin/sh\n\nset -e\n",
    "\u6771\u4eac\u90fd\u306b\u884c\u304f\u3002 \u4f60\u597d\uff0c\u4e16\u754c", "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8", "\u0e44\u0e17\u0e22\u0e20\u0e32\u0e29\u0e32", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0661\u0662\u0663",
    "\u05e2\u05d1\u05e8\u05d9\u05ea", "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0442\u0435\u043a\u0441\u0442", "\U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \u2764\ufe0f", "a\u200bb\u200cc\ufeffd", "\u00a0nbsp\u00a0\u00a0x\u2003em\u3000ideographic  y",
    "\u180emvs \u180e\u180e x", "a\u0085b \u0085 c", "line\u2028sep\u2029para", "\x00nul \x7f del \x1b[0m", "\x0b\x0c vt ff", "   leading", "trailing   ",
    "a b  c   d    e", "\u2014 dash \u2026 \u201cquoted\u201d", "\U00020000\U0002f800 \U0001d400\U0001d7d8", "e\u0301\u0301\u0301 \u0301x", "\u1100\u1161\u11a8 \uac01", "\u212b \u2126 \u0344", "\ud7b0", "\U000e0041 tag", "\u0300alone",
]
ATOMS = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "a", "the", "Word", "\u00e9", "e\u0301", "1", "42", "2048", "\u00bd", "'s", "'LL", "'", "!", "...", "_", "\u4e2d",
         "\u6587", "\U0001f642", "\u200d", "\u0085", "\u2028", "<|end|>", "<tool>", "<|sep|>", "x1", "\u0661"]

TRAINING = ("The prefill engine reads the prompt and the decode engine writes the answer. " * 3 + "It's a cache: blocks of 256 tokens, 2048 rows, 3 planes.\n\n"
            "don't we'll I'M caf\u00e9 na\u00efve \u6771\u4eac \u6771\u4eac\u90fd the   then    there  \r\n other another mother 1000 1000 2048 2048\n" * 4)


def texts() -> list[str]:
    rng = random.Random(7)
    mixed = ["".join(rng.choice(ATOMS) for _ in range(rng.randint(2, 24))) for _ in range(120)]
    return FIXED + mixed


def split_goldens() -> dict:
    out = {}
    for name, pre in FAMILIES.items():
        cases = []
        for text in texts():
            # Offsets count scalars of the text; a byte-level piece keeps those of the scalars it came from.
            cases.append({"text": text, "pieces": [text[a:b] for _, (a, b) in pre.pre_tokenize_str(text)]})
        out[name] = cases
    return out


def train(name: str) -> Tokenizer:
    tok = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    tok.pre_tokenizer = FAMILIES[name]
    tok.decoder = decoders.ByteLevel()
    if name == "qwen2":
        tok.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|begin|>"] if name == "llama3" else [])
    tok.train_from_iterator([TRAINING], trainer)
    tok.add_special_tokens([AddedToken("<|end|>", normalized=False), AddedToken("<|endoftext|>", normalized=False)])
    tok.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("e\u0301e\u0301", normalized=True),
                    AddedToken("<|sep|>", lstrip=True, rstrip=True, normalized=False), AddedToken("<|sep|>x", normalized=False)])
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    if name == "llama3":
        bos = processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|> $B",
                                            special_tokens=[("<|begin|>", tok.token_to_id("<|begin|>"))])
        tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), bos])
    return tok


def family_cases(tok: Tokenizer) -> list[dict]:
    extra = ["<|begin|>x", "<|end|><|end|>", "a <|sep|> b", "a<|sep|>xyz", "<|sep|>  <|sep|>", "\u00e9\u00e9 e\u0301e\u0301", "<|en<|end|>d|>", "<tool></tool>", "<|endoftext|>\n"]
    cases = []
    for text in texts() + extra:
        tok.encode_special_tokens = False
        parsed = tok.encode(text, add_special_tokens=False).ids
        with_bos = tok.encode(text, add_special_tokens=True).ids
        tok.encode_special_tokens = True
        cases.append({"text": text, "parsed": parsed, "with_bos": with_bos != parsed,
                      "plain": tok.encode(text, add_special_tokens=False).ids})
    return cases


def write(path: Path, value) -> None:
    lines = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    path.write_text(lines.replace('{"text"', '\n{"text"') + "\n", encoding="ascii")


def main() -> None:
    out = Path(sys.argv[1])
    write(out / "splits.json", split_goldens())
    cases = {}
    for name in FAMILIES:
        tok = train(name)
        tok.save(str(out / f"family_{name}.json"), pretty=False)
        cases[name] = family_cases(tok)
    write(out / "family_cases.json", cases)


if __name__ == "__main__":
    main()
