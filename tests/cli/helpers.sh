# Sourced before each golden script.

# archive FILE [EXTRA_LINE_OF_SETTINGS]: a ZIP that has settings, but no model.
archive() {
  python3 "$HELPERS/make_archive.py" "$@"
}

# checkpoint FOLDER STEP [damaged]: a checkpoint of a run in which memory ran out.
checkpoint() {
  python3 "$HELPERS/make_checkpoint.py" "$@"
}

# live NAME COMMAND...: runs the command while something answers as the run of that name.
live() {
  python3 -B "$HELPERS/fake_run.py" "$@"
}

# jobs: what the local cluster knows, from records on standard input (make_jobs.cpp).
jobs() {
  "$MAKE_JOBS"
}

# service COMMAND...: runs the command while something answers as the local cluster's service.
service() {
  python3 -B "$HELPERS/fake_service.py" "$@"
}

# simulation: profiles/small.yaml and workload.csv, of which simulations are made.
simulation() {
  mkdir profiles
  cat > profiles/small.yaml <<'YAML'
max_batch: 512
placements:
  - {gpus: [1], atomic: 32, step_s: 0.1, sync_s: 0}
  - {gpus: [1], atomic: 128, step_s: 0.3, sync_s: 0}
  - {gpus: [2], atomic: 32, step_s: 0.12, sync_s: 0.02}
  - {gpus: [4], atomic: 32, step_s: 0.13, sync_s: 0.03}
validation:
  - batch: 64
    epochs: [{progress: 1000, iterations: 1000, grad_sqr: 1, grad_var: 4}]
YAML
  cat > workload.csv <<'CSV'
name,time,application,num_replicas,batch_size
one,0,small,1,64
two,30,small,2,128
CSV
}

# run_of REPLICAS: the events of a run of two epochs at the initial batch.
run_of() {
  echo '{"event":"start","format":1,"name":"small","time_s":0}'
  echo '{"event":"batch","replicas":'$1',"batch":64,"scale":1,"bounds":{"initial":64,"max":128,"atomic_min":8,"atomic_max":64}}'
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    echo '{"event":"step","epoch":'$((i / 10)).$((i % 10))',"progress":'$i',"progress_total":20,"replicas":'$1',"batch":64,"atomic":'$((64 / $1))',"accumulation":0,"accum_s":0,"step_s":0.5,"sync_s":0.125,"noise_scale":64}'
    [ $((i % 10)) = 0 ] && echo '{"event":"epoch","epoch":'$((i / 10))'}'
  done
  echo '{"event":"rescale","cause":"scale","from":1,"to":2,"pause_s":0.25}'
}

# some_jobs: one that trains, one that waits, and one that has failed.
some_jobs() {
  jobs <<'JSON'
{"name": "digits-x7k2p", "phase": "Running", "age_s": 3700, "started_ago_s": 3690, "replicas": 2, "slots": [0, 1], "restarts": 3, "max_replicas": 4, "why": "it keeps 2 replicas on 1 node, with 2.69 times the goodput of its slowest configuration", "tensorboard": "curves", "hints": {"initBatchSize": 32, "localBszBounds": [8, 128], "globalBatchSize": 64, "maxBatchSize": 512, "maxProfiledReplicas": 1, "gradientAccumulation": false, "gradParams": {"norm": 0.5, "var": 40}, "perfParams": {"alpha_c": 0.05, "beta_c": 0.002, "alpha_n": 0.05, "beta_n": 0.01, "alpha_r": 0.03, "beta_r": 0.001, "gamma": 1.5}, "remainingProgress": 10000}}
{"name": "train-abcde", "phase": "Pending", "age_s": 11130, "message": "4 GPUs are wanted; the machine has none", "reason": "Unschedulable"}
{"name": "broken-99999", "phase": "Failed", "age_s": 200000, "started_ago_s": 199990, "ended_ago_s": 199930, "reason": "Crashed", "message": "exit code 3", "exit_code": 3}
{"event": "Submitted", "job": "digits-x7k2p", "message": "", "age_s": 3700}
{"event": "Scheduled", "job": "digits-x7k2p", "message": "1 replica", "age_s": 3690}
{"event": "Rescaled", "job": "digits-x7k2p", "message": "replicas 1 -> 2", "age_s": 3630}
{"event": "Failed", "job": "broken-99999", "message": "exit code 3", "age_s": 199930, "warning": true}
JSON
}
