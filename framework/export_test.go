package framework

// NormalizedByHighest is for tests of what is said of these plugins.
var NormalizedByHighest = normalizedByHighest
