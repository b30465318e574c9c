package environ

// AddUsualPlaces returns env: on Windows installers put their folders into the
// user's PATH, which every program gets.
func AddUsualPlaces(env Env) Env { return env }
