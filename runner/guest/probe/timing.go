package probe

var timing = []Probe{}
