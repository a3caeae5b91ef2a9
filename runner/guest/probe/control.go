package probe

var control = []Probe{}
