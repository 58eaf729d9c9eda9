"""Compares tokenizers with the Python packages `sentencepiece` and `tokenizers`.

usage: check.py PROGRAM    where PROGRAM is the example `tokenize` of this crate

Models that the packages train must give the same pieces here, on a text with several scripts, odd blanks and unknown characters.
Tokenizers that are trained here must give the same pieces in `tokenizers`, and byte-pair encoding must learn the same merges.
"""
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

PROGRAM = sys.argv[1]
WORK = pathlib.Path(tempfile.mkdtemp())


def invented_text(seed, lines):
    """Sentences of invented words, drawn by rank so that some are frequent and most are rare."""
    draw = random.Random(seed)
    syllables = ["ka", "ro", "mi", "ten", "sul", "der", "ing", "th", "é", "ö", "ar", "ist", "un", "ly"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(800)]
    words += ["<unk>", "N", "don't", "1,250", "3.5", "well-known", "U.S."]
    text = []
    for _ in range(lines):
        line = [words[min(int(draw.paretovariate(0.7)) - 1, len(words) - 1)] for _ in range(draw.randint(3, 25))]
        text.append(" ".join(line).capitalize() + draw.choice([".", "!", " ?", ";"]))
    return text


def awkward_lines(train):
    """Lines with what is rare: blanks of all kinds, accents in both forms, other scripts, signs, numbers."""
    return train[:300] + [
        "", " ", "  two  blanks  ", "\ttab and\u00a0space\u3000wide", "Ünïcode naïve cafe\u0301", "ﬁne ﬂow ①② ½ ™",
        "日本語のテキスト 漢字", "Привет мир Ёлка", "ελληνικά ΣΊΣΥΦΟΣ", "emoji 👍🏽 👨\u200d👩\u200d👧 end", "x\u0300\u0301\u0302y",
        "I'll we're they've don't I'm he'd", "a1b22c333 4,444.5", "--- *** ((())) \"quoted\" 'x'", "▁already ▁ ▁▁here",
        "<unk> <s> </s> <mask> <pad>x", "trailing   ", "line\u2028separator\u200bzero", "ＦＵＬＬ　ＷＩＤＴＨ", "a" * 200,
    ]


def ours(tokenizer, lines):
    text = WORK / "text.txt"
    text.write_text("\n".join(lines), newline="\n")
    printed = subprocess.run([PROGRAM, "encode", tokenizer, text], check=True, capture_output=True, text=True).stdout
    encoded = [[int(word) for word in line.split()] for line in printed.split("\n")[:-1]]
    assert len(encoded) == len(lines), (len(encoded), len(lines))
    return encoded


def compare(name, path, expected, lines):
    found = ours(path, lines)
    for line, want, got in zip(lines, expected, found):
        if want != got:
            sys.exit(f"{name}: {line!r}\n  expected {want}\n  found    {got}")
    print(f"{name:42} {sum(map(len, found)):7} pieces of {len(lines)} lines agree")


def check_sentencepiece(train, lines):
    for name, options in {
        "unigram": dict(model_type="unigram", vocab_size=400),
        "bpe": dict(model_type="bpe", vocab_size=400),
        "char": dict(model_type="char", vocab_size=60),
        "word": dict(model_type="word", vocab_size=300),
        "unigram, bytes": dict(model_type="unigram", vocab_size=600, byte_fallback=True),
        "bpe, bytes, symbols": dict(model_type="bpe", vocab_size=600, byte_fallback=True,
                                    user_defined_symbols=["<mask>", "U.S.", "x"]),
        "unigram, symbols": dict(model_type="unigram", vocab_size=400, user_defined_symbols=["<unk1>", "don't"]),
        "unigram, identity": dict(model_type="unigram", vocab_size=400, normalization_rule_name="identity",
                                  remove_extra_whitespaces=False, add_dummy_prefix=False),
        "bpe, folded case, spanning": dict(model_type="bpe", vocab_size=400, normalization_rule_name="nfkc_cf",
                                           split_by_whitespace=False),
    }.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(train), model_writer=model, num_threads=1, hard_vocab_limit=False, minloglevel=2, **options)
        path = WORK / "sp.model"
        path.write_bytes(model.getvalue())
        package = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        compare(f"SentencePiece {name}", path, [package.encode(line) for line in lines], lines)


def hugging_face(train):
    """Tokenizers like those of GPT-2, BERT, Llama, T5 and others."""
    special = ["<unk>", "<s>", "</s>"]

    def trained(model, trainer, normalizer=None, cutter=None):
        tokenizer = Tokenizer(model)
        if normalizer:
            tokenizer.normalizer = normalizer
        if cutter:
            tokenizer.pre_tokenizer = cutter
        tokenizer.train_from_iterator(train, trainer)
        return tokenizer

    def bpe(**options):
        return trainers.BpeTrainer(vocab_size=500, show_progress=False, **options)

    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    yield "bytes", trained(models.BPE(), bpe(initial_alphabet=alphabet), cutter=by_bytes)
    gpt4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    cutter = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(gpt4), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "bytes, longer pattern", trained(models.BPE(ignore_merges=True), bpe(initial_alphabet=alphabet), cutter=cutter)
    yield "bytes, blank before", trained(
        models.BPE(), bpe(initial_alphabet=alphabet, special_tokens=special), normalizers.NFC(), pre_tokenizers.ByteLevel())
    yield "words, unknown joined", trained(
        models.BPE(unk_token="<unk>", fuse_unk=True), bpe(special_tokens=special), cutter=pre_tokenizers.Whitespace())
    yield "end of word", trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), bpe(special_tokens=special, end_of_word_suffix="</w>"),
        normalizers.Lowercase(), pre_tokenizers.WhitespaceSplit())
    llama = trained(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        bpe(special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)]),
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]))
    yield "bytes for unknown, no cutting", llama
    for name, normalizer in {
        "BERT": normalizers.BertNormalizer(lowercase=True), "BERT with case": normalizers.BertNormalizer(lowercase=False),
        "accents stripped": normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()]),
    }.items():
        yield name, trained(
            models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=50),
            trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", "[MASK]"], show_progress=False),
            normalizer, pre_tokenizers.BertPreTokenizer())
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.WhitespaceSplit()])
    yield "words", trained(
        models.WordLevel(unk_token="<unk>"),
        trainers.WordLevelTrainer(vocab_size=300, special_tokens=special, show_progress=False), normalizers.NFKC(), words)
    for scheme in ["always", "first", "never"]:
        yield f"unigram, {scheme}", trained(
            models.Unigram(),
            trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=special, show_progress=False),
            normalizers.Replace(Regex(" {2,}"), " "), pre_tokenizers.Metaspace(prepend_scheme=scheme))


def check_hugging_face(train, lines):
    for name, tokenizer in hugging_face(train):
        path = WORK / "hf.json"
        tokenizer.save(str(path))
        expected = [tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
        compare(f"Hugging Face {name}", path, expected, lines)


def check_trained_here(train, lines):
    text = WORK / "train.txt"
    text.write_text("\n".join(train), newline="\n")
    for kind, size in [("bpe", 600), ("unigram", 300), ("word", 300), ("word", 0), ("char", 0)]:
        path = WORK / f"{kind}.json"
        for copy in [WORK / "copy.json", path]:
            subprocess.run([PROGRAM, "train", kind, str(size), text, copy], check=True)
        assert (WORK / "copy.json").read_bytes() == path.read_bytes(), f"{kind} differs when it is trained again"
        package = Tokenizer.from_file(str(path))
        assert size in (0, package.get_vocab_size())
        expected = [package.encode(line, add_special_tokens=False).ids for line in lines]
        compare(f"trained here: {kind} {size or ''}", path, expected, lines)
        if kind == "bpe":
            model = json.loads(path.read_text())["model"]
            package = Tokenizer(models.BPE(unk_token="<unk>"))
            package.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always", split=False)])
            package.train_from_iterator(
                train, trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False))
            theirs = json.loads(package.to_str())["model"]
            assert theirs["vocab"] == model["vocab"], "byte-pair encoding learns other pieces"
            assert theirs["merges"] == model["merges"], "byte-pair encoding learns other merges"
            print(f"trained here: bpe learns the {len(model['merges'])} merges of `tokenizers`")
        if kind == "unigram":
            # Trained otherwise, but as good: the text needs at most 3 % more pieces.
            other = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(train), model_writer=other, num_threads=1, minloglevel=2,
                                                     vocab_size=size, model_type="unigram", normalization_rule_name="identity")
            theirs = sentencepiece.SentencePieceProcessor(model_proto=other.getvalue())
            counts = [sum(map(len, ours(path, train))), sum(len(theirs.encode(line)) for line in train)]
            assert counts[0] < 1.03 * counts[1], counts
            print(f"trained here: unigram writes the text with {counts[0]} pieces, SentencePiece with {counts[1]}")


if __name__ == "__main__":
    text = invented_text(seed=7, lines=3000)
    awkward = awkward_lines(text)
    check_sentencepiece(text, awkward)
    check_hugging_face(text, awkward)
    check_trained_here(text, awkward)
