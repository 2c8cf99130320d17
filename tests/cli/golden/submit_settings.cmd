# exit 0
# An archive's settings are checked before anything is printed or sent, wherever they come from.
archive train.pt
mkdir folder
archive folder/train.pt
refused() {
  service adaptdl submit "$@" > printed 2> error
  echo $?
  cut -d ';' -f 1 error
  cat printed
}
refused train.pt --dry-run --set nosuch=1
refused train.pt --set epochs=x
refused folder --set nosuch=1
printf 'archive: ./train.pt\nset: {epohcs: 3}\n' > folder/adaptdljob.yaml
refused folder --dry-run --set epochs=3
printf 'archive: train.pt\nset: {epochs: 3}\n' > folder/adaptdljob.yaml
refused folder --dry-run --set epohcs=3
# What an image has is not at hand.
adaptdl submit folder --image somewhere --dry-run -q --set nosuch=1 | grep nosuch
archive folder/train.pt "bacth: 3"
refused folder --dry-run
test ! -e requests
