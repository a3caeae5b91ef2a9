package smoke

func limitsEntries() []Entry { return nil }
