package probe

var limits = []Probe{}
