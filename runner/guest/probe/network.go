package probe

var network = []Probe{}
