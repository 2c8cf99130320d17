# exit 0
jobs <<'JSON'
{"name": "digits-x7k2p", "phase": "Running", "age_s": 3700, "started_ago_s": 3690, "replicas": 1, "slots": [0], "max_replicas": 2, "why": "it keeps 1 replica on 1 node", "hints": {"initBatchSize": 32, "localBszBounds": [8, 128], "globalBatchSize": 64, "maxBatchSize": 512, "maxProfiledReplicas": 1, "gradientAccumulation": true, "gradParams": {"norm": 0.5, "var": 40}, "perfParams": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.05, "beta_n": 0.01, "alpha_r": 0.03, "beta_r": 0.001, "gamma": 1.5}, "accelerator": "A100", "accelerators": {"A100": {"maxLocalBsz": 128, "perfParams": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.05, "beta_n": 0.01, "alpha_r": 0.03, "beta_r": 0.001, "gamma": 1.5}}, "T4": {"maxLocalBsz": 16, "perfParams": {"alpha_c": 0.1, "beta_c": 0.008, "alpha_n": 0.05, "beta_n": 0.01, "alpha_r": 0.03, "beta_r": 0.001, "gamma": 1.5}}}}}
JSON
adaptdl explain digits-x7k2p
adaptdl explain digits-x7k2p -o json
