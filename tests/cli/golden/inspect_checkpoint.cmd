# exit 0
checkpoint digits.run/checkpoints 20
checkpoint digits.run/checkpoints 40
adaptdl inspect digits.run
adaptdl inspect digits.run/checkpoints | head -1
adaptdl inspect digits.run/checkpoints/step-000000000020 -o json
