"""make_archive.py FILE [LINE...]: what the launcher needs of a train.pt, with LINEs added to its
settings."""
import os
import sys
import zipfile

SETTINGS = """format: 1
data:
  train:
    - {format: synthetic, samples: 64, shape: [4]}
batch: {initial: 8}
optimizer: {kind: sgd, lr: 0.1}
epochs: 2
"""

path = sys.argv[1]
stem = os.path.splitext(os.path.basename(path))[0]
with zipfile.ZipFile(path, 'w') as archive:
    archive.writestr(f'{stem}/extra/adaptdl.yaml', '\n'.join([SETTINGS.strip(), *sys.argv[2:], '']))
    archive.writestr(f'{stem}/data.pkl', b'\x80\x02N.')
    archive.writestr(f'{stem}/version', '3\n')
