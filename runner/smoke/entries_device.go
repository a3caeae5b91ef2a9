package smoke

func deviceEntries() []Entry { return nil }
