# Sourced before each golden script.

# archive FILE [EXTRA_LINE_OF_SETTINGS]: a ZIP that has settings, but no model.
archive() {
  python3 "$HELPERS/make_archive.py" "$@"
}

# live NAME COMMAND...: runs the command while something answers as the run of that name.
live() {
  python3 "$HELPERS/fake_run.py" "$@"
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
