"""The model of this example: a small transformer that continues a text byte by byte.

train.pt was made from this file; `python3 model.py` (needs PyTorch) makes it anew. After training,
let it write:

    model = torch.jit.load("model.pt")
    prompt = torch.tensor(list("The ".encode()))
    print(bytes(model(prompt, 400, 0.8).tolist()).decode(errors="replace"))

Any model becomes a training job in the same way:

    class Job(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        @torch.jit.export
        def training_step(self, batch: List[Tensor]) -> Tensor:
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    torch.jit.save(torch.jit.script(Job(my_model)), "train.pt",
                   _extra_files={"adaptdl.yaml": open("adaptdl.yaml").read()})
"""

from typing import Dict, List

import torch
from torch import Tensor, nn


class Chars(nn.Module):
    def __init__(self):
        super().__init__()
        # 256 bytes, windows of 64, two layers of width 64 with four heads.
        self.embedding = uniform(64, 256, 64)
        self.position = uniform(64, 64, 64)
        self.norm_weight = nn.Parameter(torch.ones(5, 64))
        self.norm_bias = nn.Parameter(torch.zeros(5, 64))
        self.query_key_value = uniform(64, 2, 192, 64)
        self.mix = uniform(64, 2, 64, 64)
        self.expand = uniform(64, 2, 256, 64)
        self.expand_bias = nn.Parameter(torch.zeros(2, 256))
        self.shrink = uniform(256, 2, 64, 256)
        self.shrink_bias = nn.Parameter(torch.zeros(2, 64))
        self.output_bias = nn.Parameter(torch.zeros(256))

    def norm(self, x: Tensor, i: int) -> Tensor:
        return torch.layer_norm(x, [64], self.norm_weight[i], self.norm_bias[i])

    # Bytes (N, L), L at most 64, to the logits of the byte after each (N, L, 256).
    @torch.jit.export
    def logits(self, text: Tensor) -> Tensor:
        count, length = text.size(0), text.size(1)
        x = torch.embedding(self.embedding, text) + self.position[:length]
        later = torch.ones([length, length], device=x.device).triu(1) * -1e9
        for i in range(2):
            parts = torch.matmul(self.norm(x, 2 * i), self.query_key_value[i].t())
            parts = parts.view([count, length, 3, 4, 16]).permute([2, 0, 3, 1, 4])
            scores = torch.matmul(parts[0], parts[1].transpose(2, 3)) * 0.25
            weights = torch.softmax(scores + later, 3)
            heads = torch.matmul(weights, parts[2]).transpose(1, 2).reshape([count, length, 64])
            x = x + torch.matmul(heads, self.mix[i].t())
            inner = torch.matmul(self.norm(x, 2 * i + 1), self.expand[i].t()) + self.expand_bias[i]
            x = x + torch.matmul(torch.relu(inner), self.shrink[i].t()) + self.shrink_bias[i]
        return torch.matmul(self.norm(x, 4), self.embedding.t()) + self.output_bias

    # The mean loss of a batch: here the cross entropy of every next byte.
    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        scores = torch.log_softmax(self.logits(batch[0]), 2)
        return -scores.gather(2, batch[1].unsqueeze(2)).mean()

    # Sums over a batch; adaptdl divides by "count" in the end.
    @torch.jit.export
    def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
        scores = torch.log_softmax(self.logits(batch[0]), 2)
        loss = -scores.gather(2, batch[1].unsqueeze(2)).mean(1).sum()
        correct = (scores.argmax(2) == batch[1]).sum() / batch[1].size(1)
        return {"loss": loss, "accuracy": correct, "count": torch.tensor(batch[1].size(0))}

    # Continues `prompt` (bytes, at least one) by `count` bytes; a low temperature is cautious.
    def forward(self, prompt: Tensor, count: int, temperature: float) -> Tensor:
        text = prompt.view([1, -1])
        for i in range(count):
            scores = self.logits(text[:, -64:])[:, -1] / temperature
            text = torch.cat([text, torch.multinomial(torch.softmax(scores, 1), 1)], 1)
        return text[0]


def uniform(inputs, *shape):
    """A parameter as PyTorch's layers begin with: within 1 / sqrt(inputs) of zero."""
    bound = inputs ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.jit.save(torch.jit.script(Chars()), "train.pt",
                   _extra_files={"adaptdl.yaml": open("adaptdl.yaml").read()})
