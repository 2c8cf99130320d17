"""The model of this example: a small convolutional net for 8 x 8 images of handwritten digits.

train.pt was made from this file; `python3 model.py` (needs PyTorch) makes it anew. The images are
the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI
Machine Learning Repository, CC BY 4.0 (https://doi.org/10.24432/C50P49), as scikit-learn has it.

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


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1_weight = uniform(9, 32, 1, 3, 3)
        self.conv1_bias = uniform(9, 32)
        self.conv2_weight = uniform(288, 64, 32, 3, 3)
        self.conv2_bias = uniform(288, 64)
        self.hidden_weight = uniform(1024, 128, 1024)
        self.hidden_bias = uniform(1024, 128)
        self.output_weight = uniform(128, 10, 128)
        self.output_bias = uniform(128, 10)

    # Images (N, 1, 8, 8) to logits (N, 10).
    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(torch.conv2d(images, self.conv1_weight, self.conv1_bias, padding=[1, 1]))
        x = torch.relu(torch.conv2d(x, self.conv2_weight, self.conv2_bias, padding=[1, 1]))
        x = torch.flatten(torch.max_pool2d(x, [2, 2]), 1)
        x = torch.dropout(x, 0.25, self.training)
        x = torch.relu(torch.matmul(x, self.hidden_weight.t()) + self.hidden_bias)
        return torch.matmul(x, self.output_weight.t()) + self.output_bias

    # The mean loss of a batch: here the cross entropy.
    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        scores = torch.log_softmax(self.forward(batch[0]), 1)
        return -scores.gather(1, batch[1].unsqueeze(1)).mean()

    # Sums over a batch; adaptdl divides by "count" in the end.
    @torch.jit.export
    def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
        scores = torch.log_softmax(self.forward(batch[0]), 1)
        loss = -scores.gather(1, batch[1].unsqueeze(1)).sum()
        correct = (scores.argmax(1) == batch[1]).sum()
        return {"loss": loss, "accuracy": correct, "count": torch.tensor(batch[1].size(0))}


def uniform(inputs, *shape):
    """A parameter as PyTorch's layers begin with: within 1 / sqrt(inputs) of zero."""
    bound = inputs ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.jit.save(torch.jit.script(Digits()), "train.pt",
                   _extra_files={"adaptdl.yaml": open("adaptdl.yaml").read()})
