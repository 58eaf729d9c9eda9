#!/usr/bin/env python3
"""An independent implementation of the model, which shares no code with the project and needs only Python 3.11: it reads
checkpoints byte by byte and computes logits with lists of numbers in double precision.

    predict.py PROGRAM    train small models with `PROGRAM run`, and compare `PROGRAM predict` with this script

The models differ in mechanism (full, topk:5), number of heads and activation; the sequences differ in length.
"""

import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import tomllib

TOLERANCE = 1e-4

EXPERIMENT = """
claim = "None: its models are compared with another implementation."
task = "stack-manipulation"
mechanisms = ["full", "topk:5"]
seeds = 1

[data]
length = 14
train = 300
held_out = 50

[model]
blocks = 3
d_model = 12
d_mlp = 20
heads = {heads}
activation = "{activation}"
dropout = 0.1

[training]
epochs = 4
learning_rate = 0.5
"""


def read_checkpoint(path):
    """Tensors by name, as lists of rows, and the settings."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    metadata = json.loads(header.pop("__metadata__")["semfocus"])
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", name
        start, end = entry["data_offsets"]
        values = list(struct.unpack(f"<{(end - start) // 4}f", body[start:end]))
        width = entry["shape"][-1]
        rows = [values[at:at + width] for at in range(0, len(values), width)]
        tensors[name] = rows if len(entry["shape"]) == 2 else rows[0]
    return tensors, tomllib.loads(metadata["settings"])


def linear(rows, tensors, name):
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    return [[b + sum(x * weight[i][j] for i, x in enumerate(row)) for j, b in enumerate(bias)] for row in rows]


def norm(rows):
    def one(row):
        mean = sum(row) / len(row)
        variance = sum((x - mean) ** 2 for x in row) / len(row)
        return [(x - mean) / math.sqrt(variance + 1e-5) for x in row]
    return [one(row) for row in rows]


def activate(x, name):
    if name == "relu":
        return max(x, 0.0)
    if name == "gelu":
        return x * 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))
    assert name == "mish"
    return x * math.tanh(math.log1p(math.exp(x)))


def kept_keys(scores, mechanism):
    if mechanism == "full":
        return range(len(scores))
    name, size = mechanism.split(":")
    assert name == "topk"
    # Equal scores: the lower index first.
    return sorted(range(len(scores)), key=lambda key: (-scores[key], key))[:int(size)]


def attention(rows, tensors, name, mechanism, heads):
    query, key, value = (linear(rows, tensors, f"{name}.{part}") for part in ("query", "key", "value"))
    width = len(query[0]) // heads
    joined = []
    for q in query:
        out = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = [sum(a * b for a, b in zip(q[part], k[part])) / math.sqrt(width) for k in key]
            kept = kept_keys(scores, mechanism)
            highest = max(scores[k] for k in kept)
            weights = {k: math.exp(scores[k] - highest) for k in kept}
            total = sum(weights.values())
            out += [sum(w * value[k][part][i] for k, w in weights.items()) / total for i in range(width)]
        joined.append(out)
    return linear(joined, tensors, f"{name}.output")


def add(rows, others):
    return [[a + b for a, b in zip(row, other)] for row, other in zip(rows, others)]


def logits(tokens, tensors, settings):
    mechanism, model = settings["mechanism"], settings["model"]
    embedding = tensors["embedding"]
    width = len(embedding[0])
    x = []
    for position, token in enumerate(tokens):
        angles = [position / 10000 ** ((i - i % 2) / width) for i in range(width)]
        waves = [math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)]
        x.append([e * math.sqrt(width) + wave for e, wave in zip(embedding[token], waves)])
    for block in range(model["blocks"]):
        name = f"blocks.{block}"
        x = add(x, attention(norm(x), tensors, f"{name}.attention", mechanism, model["heads"]))
        hidden = linear(norm(x), tensors, f"{name}.mlp.hidden")
        hidden = [[activate(h, model["activation"]) for h in row] for row in hidden]
        x = add(x, linear(hidden, tensors, f"{name}.mlp.output"))
    mean = [sum(column) / len(x) for column in zip(*x)]
    return linear([mean], tensors, "classifier")[0]


def compare(program, trial):
    """The largest difference of a logit."""
    draw = random.Random(1)
    tensors, settings = read_checkpoint(trial / "last.safetensors")
    vocabulary = len(tensors["embedding"])
    sequences = [[draw.randrange(vocabulary) for _ in range(length)] for length in [1, 2, 4, 5, 6, 14, 14, 23, 40]]
    text = "".join(" ".join(map(str, tokens)) + "\n" for tokens in sequences)
    command = [program, "predict", str(trial), "--json"]
    output = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    found = json.loads(output)["list"]
    assert len(found) == len(sequences), output
    worst = 0.0
    for tokens, prediction in zip(sequences, found):
        expected = logits(tokens, tensors, settings)
        assert len(expected) == len(prediction["logits"]), prediction
        assert prediction["class"] == max(range(len(expected)), key=lambda label: prediction["logits"][label])
        difference = max(abs(a - b) for a, b in zip(expected, prediction["logits"]))
        assert difference < TOLERANCE, (settings["mechanism"], tokens, expected, prediction)
        worst = max(worst, difference)
    return settings["mechanism"], worst


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    compared = []
    with tempfile.TemporaryDirectory() as folder:
        for heads, activation in [(1, "relu"), (2, "gelu"), (3, "mish")]:
            run = pathlib.Path(folder) / f"{heads}-{activation}"
            file = run.with_suffix(".toml")
            file.write_text(EXPERIMENT.format(heads=heads, activation=activation))
            subprocess.run([program, "run", str(file), "-o", str(run), "--quiet"], check=True, capture_output=True)
            for trial in sorted(path for path in (run / "trials").iterdir() if path.is_dir()):
                mechanism, worst = compare(program, trial)
                compared.append(mechanism)
                print(f"{mechanism:7} heads {heads} {activation}: logits agree to {worst:.1e}")
    assert sorted(set(compared)) == ["full", "topk:5"] and len(compared) == 6, compared


if __name__ == "__main__":
    main()
