"""Programs of other frameworks under `adaptdl run -- CMD`, as their manuals tell to write them,
with what adaptdl-torchrun(1) asks of them: killed and rescaled, to their ends.

ADAPTDL_TEST_PYTHON names a Python that can import torch and the frameworks; tests of those that it
lacks are skipped with a message.
"""

from support import (PYTHON, Command, check, kill, main, python_has, run_command, skip)

EPOCHS = 30

# One replica computes the epochs slowly until the file GO exists.
ACCELERATE = f'''
import os, time
import torch
from accelerate import Accelerator

torch.set_num_threads(1)
accelerator = Accelerator()
x = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
begin = 0
if os.path.exists("saved"):
    accelerator.load_state("saved")
    begin = int(open("saved/epochs").read())
for epoch in range(begin, {EPOCHS}):
    for a, b in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(a), b))
        optimizer.step()
    accelerator.save_state("saved.new")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        open("saved.new/epochs", "w").write(str(epoch + 1))
        os.system("rm -rf saved && mv saved.new saved")
    accelerator.wait_for_everyone()
    print("epoch", epoch, "rank", accelerator.process_index, "of", accelerator.num_processes, "pid",
          os.getpid(), "restarts", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
    time.sleep(0.2 if not os.path.exists("GO") else 0)
accelerator.end_training()
'''

LIGHTNING = f'''
import os, signal, sys, time
import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

torch.set_num_threads(1)

class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        a, b = batch
        return torch.nn.functional.mse_loss(self.line(a), b)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

class Elastic(L.Callback):
    def on_train_start(self, trainer, module):
        self.told = []
        signal.signal(signal.SIGTERM, lambda *_: self.told.append(1))

    def on_train_batch_end(self, trainer, module, *_):
        told = torch.tensor(float(len(self.told)))
        if trainer.strategy.reduce(told, reduce_op="sum").item():
            trainer.save_checkpoint("saved.ckpt")
            torch.distributed.destroy_process_group()
            sys.exit(143)

    def on_train_epoch_end(self, trainer, module):
        print("epoch", trainer.current_epoch, "rank", trainer.global_rank, "of",
              trainer.world_size, "pid", os.getpid(), "restarts",
              os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
        time.sleep(0.2 if not os.path.exists("GO") else 0)

x = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
found = [f for f in ("saved.ckpt", "checkpoints/last.ckpt") if os.path.exists(f)]
trainer = L.Trainer(strategy="ddp", accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_epochs={EPOCHS},
                    logger=False, enable_progress_bar=False,
                    callbacks=[Elastic(), ModelCheckpoint("checkpoints", save_last=True)])
trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=8, shuffle=True),
            ckpt_path=max(found, key=os.path.getmtime, default=None))
'''


def killed_and_rescaled(folder, random, program, environment, saves_on_sigterm):
    """2 replicas, of which one is killed; then 1. Every epoch ends."""
    script = folder.write("train.py", program)
    run = Command(folder, "run", "--replicas", "2", "--", PYTHON, script, name="train",
                  environment=environment)
    victim = random.randrange(2)
    _, _, _, pid, _ = run.wait_epoch("epoch 1 on 2", lambda e, r, w, p, n: e >= 1 and r == victim)
    kill(pid)
    again = run.wait_epoch("both again", lambda e, r, w, p, n: n == 1 and w == 2)
    check(again[0] >= 1, "it did not continue", again)
    run_command([folder.binary, "scale", "train", "1"], 0, env=folder.environment)
    alone = run.wait_epoch("one", lambda e, r, w, p, n: w == 1)
    check(alone[0] >= again[0], "it did not continue", run.printed())
    if saves_on_sigterm:
        check(alone[4] == 1, "a rescale is no failure", alone)
    folder.write("GO", "")
    run.expect_end(0)
    check({e for e, *_ in run.epochs()} == set(range(EPOCHS)), "an epoch is lost", run.printed())
    folder.check_nothing_left()


def needs(module):
    if not python_has(module):
        skip(f"ADAPTDL_TEST_PYTHON names no Python with {module}")


def accelerate(folder, random):
    needs("accelerate")
    killed_and_rescaled(folder, random, ACCELERATE, {"ACCELERATE_USE_CPU": "true"}, False)


def lightning(folder, random):
    needs("lightning")
    killed_and_rescaled(folder, random, LIGHTNING, {}, True)


main(accelerate, lightning)
