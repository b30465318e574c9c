package autostart

func newPlace(o Options) place { return newLaunchAgent(o) }
