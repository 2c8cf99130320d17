"""Shared code of all Python tests: checks, processes, runs, services, the test runner.

meson sets PYTHONPATH to the parent folder; by hand:

    PYTHONPATH=tests python3 tests/elastic/kills.py build/adaptdl build/tests/elastic/programs
"""

from .charts import check_charts
from .checks import PATIENCE, SKIPPED, Failed, check, shortened, skip, wait_until
from .commands import DDP, LONG, PYTHON, Command, python_has
from .disks import SmallDisk
from .files import (json_lines, last_lines, logs_below, read, read_json, read_safetensors,
                    write)
from .folder import KEPT, MARK, Folder, paced
from .hosts import TOKEN, Hosts, Site, Supervisor, worker_of
from .installed import Installed, files_below, must_run
from .networks import DEVICE, Network
from .pictures import digit_pictures, png, read_npy, write_npy, write_tar
from .processes import (Processes, carriers, children_of, claim, cpu_s, end, free_port, free_ports,
                        kill, kill_child, run_command, stat_fields, status_of)
from .registry import Registry, has_registry
from .results import Results, end_by_sigterm, main, skip_all
from .runs import Run, same_losses
from .s3 import MOTO, ObjectStore
from .service import ENDED, LIVE_JOBS, Service, service
from .slurm import SLURM, Slurm
from .sockets import answer_at, ask
from .sshd import SSHD, SshSite
from .storms import RECOVERY, Group, Storm
