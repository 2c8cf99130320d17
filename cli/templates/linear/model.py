"""The smallest model that trains: linear regression.

train.pt was made from this file; `python3 model.py` (needs PyTorch) makes it anew.

Any model becomes a training job in the same way:

    class Job(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        @torch.jit.export
        def training_step(self, batch: List[Tensor]) -> Tensor:
            return torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])

    torch.jit.save(torch.jit.script(Job(my_model)), "train.pt",
                   _extra_files={"adaptdl.yaml": open("adaptdl.yaml").read()})
"""

from typing import Dict, List

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8))
        self.bias = nn.Parameter(torch.zeros(1))

    # Inputs (N, 8) to predictions (N).
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.matmul(inputs, self.weight) + self.bias

    # The mean loss of a batch: here the squared error.
    @torch.jit.export
    def training_step(self, batch: List[Tensor]) -> Tensor:
        return (self.forward(batch[0]) - batch[1]).square().mean()

    # Sums over a batch; adaptdl divides by "count" in the end.
    @torch.jit.export
    def validation_step(self, batch: List[Tensor]) -> Dict[str, Tensor]:
        loss = (self.forward(batch[0]) - batch[1]).square().sum()
        return {"loss": loss, "count": torch.tensor(batch[1].size(0))}


if __name__ == "__main__":
    torch.jit.save(torch.jit.script(Linear()), "train.pt",
                   _extra_files={"adaptdl.yaml": open("adaptdl.yaml").read()})
