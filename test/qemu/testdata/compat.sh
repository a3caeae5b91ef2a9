# What this kernel answers to system calls of other tables than its own; $1 is how quavon-guest
# is told to make one attempt alone.
echo
for call in int80-getpid int80-socketcall x32-getpid; do
  echo "$call $(echo '{"nonce":"n"}' | ./quavon-guest "$1" B4-compat "$call")"
done
