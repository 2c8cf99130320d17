#!/usr/bin/env python3
"""generated.py ADAPTDL GENERATOR FOLDER: the files in FOLDER are what GENERATOR makes of
ADAPTDL."""
import filecmp
import os
import subprocess
import sys
import tempfile

binary, generator, folder = sys.argv[1:]
with tempfile.TemporaryDirectory(prefix='adaptdl-generated') as fresh:
    subprocess.run([sys.executable, generator, binary, fresh], check=True)
    names = sorted(os.listdir(fresh))
    suffixes = {os.path.splitext(name)[1] for name in names}
    stale = [name for name in os.listdir(folder)
             if os.path.splitext(name)[1] in suffixes and name not in names]
    _, different, missing = filecmp.cmpfiles(fresh, folder, names, shallow=False)
for name in different + missing + stale:
    print(f'{os.path.join(folder, name)} is not what {generator} makes; run it again')
sys.exit(1 if different or missing or stale else 0)
