package probe

var control = []Probe{reaching("H1-services")}
