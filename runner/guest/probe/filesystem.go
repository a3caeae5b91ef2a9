package probe

var filesystem = []Probe{}
