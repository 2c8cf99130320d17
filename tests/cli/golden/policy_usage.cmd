# exit 2
adaptdl policy set polux
adaptdl policy set pollux fairnes=1
adaptdl policy set pollux fairness=blue
adaptdl policy sett
