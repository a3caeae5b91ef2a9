# What the doctor says of this machine, by check: $1 are the codes. Then the commands of the
# fixes are typed, and what it says is told again.
depmod
ask() {
  for code in $1; do
    ./quavon doctor --only "$code" >/tmp/"$code" 2>&1
    sed "s/^/$2 $code: /" /tmp/"$code"
  done
}
echo
ask "$1" before
for code in $1; do
  sed -n '/fix:/{s/.*fix: *//;p}' /tmp/"$code" | grep -o '`[^`]*`' | grep -v explain | tr -d '`' | while read -r command; do
    echo "typed $code: $command"
    sh -c "$command" </dev/null 2>&1 | sed "s/^/typed $code: /"
  done
done
ask "$1" after
