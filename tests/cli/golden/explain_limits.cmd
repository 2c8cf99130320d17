# exit 0
jobs <<'JSON'
{"name": "digits-x7k2p", "phase": "Running", "age_s": 3700, "started_ago_s": 3690, "replicas": 1, "slots": [0], "max_replicas": 5, "why": "it keeps 1 replica on 1 node", "hints": {"initBatchSize": 32, "localBszBounds": [16, 32], "globalBatchSize": 32, "maxBatchSize": 48, "maxProfiledReplicas": 1, "gradientAccumulation": false, "gradParams": {"norm": 0.5, "var": 40}, "perfParams": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.05, "beta_n": 0.01, "alpha_r": 0.03, "beta_r": 0.001, "gamma": 1.5}}}
JSON
adaptdl explain digits-x7k2p
adaptdl -q policy set fixed
adaptdl explain digits-x7k2p
