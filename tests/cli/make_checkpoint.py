"""make_checkpoint.py FOLDER STEP [damaged]: a checkpoint as adaptdl-checkpoint(5) says, of two
tensors, or with a byte of the second one changed."""
import json
import os
import struct
import sys


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return f'{crc ^ 0xffffffff:08x}'


folder, step = os.path.join(sys.argv[1], f'step-{int(sys.argv[2]):012}'), int(sys.argv[2])
weight, mean = struct.pack('<6f', *range(6)), struct.pack('<2d', 0.5, 1.5)
tensors = [
    {'name': 'parameter/weight', 'dtype': 'float32', 'shape': [2, 3], 'file': 'data.bin',
     'offset': 0, 'bytes': 24, 'crc32c': crc32c(weight)},
    {'name': 'buffer/mean', 'dtype': 'float64', 'shape': [2], 'file': 'data.bin', 'offset': 64,
     'bytes': 16, 'crc32c': crc32c(mean)}]
manifest = {
    'format': 1, 'job': 'digits', 'step': step, 'generation': 3,
    'created': '2026-01-31T08:05:09.123Z', 'finished': False,
    'settings': {'optimizer.lr': '0.1'},
    'state': {'precision': 'fp16', 'progress': {
        'iterations': 38.5, 'epoch': 2, 'pass': 0, 'index': 480, 'skipped': 1, 'atomic': 8,
        'micro_steps': 2, 'batch_replicas': 3, 'atomic_limit': 8, 'loss_scale': 32768.0,
        'validation': {'loss': 0.25, 'perplexity': 'nan'}}},
    'files': [{'name': 'data.bin', 'bytes': 80}], 'tensors': tensors}
text = json.dumps(manifest, sort_keys=True, separators=(',', ':'))
os.makedirs(folder)
with open(os.path.join(folder, 'data.bin'), 'wb') as file:
    file.write(weight + bytes(40) + (mean if len(sys.argv) < 4 else mean[:-1] + b'\0'))
with open(os.path.join(folder, 'manifest.json'), 'w') as file:
    json.dump(manifest | {'checksum': crc32c(text.encode())}, file)
