package probe

var device = []Probe{}
