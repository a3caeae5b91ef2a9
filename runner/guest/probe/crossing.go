package probe

var crossing = []Probe{}
