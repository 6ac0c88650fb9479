package vm

import "slices"

// Shapes lists the sizes a desktop can have, smallest first.
func Shapes() []Shape {
	return []Shape{
		{Name: "small", VCPUs: 1, MemoryMiB: 1536},
		{Name: "medium", VCPUs: 2, MemoryMiB: 2048},
		{Name: "large", VCPUs: 4, MemoryMiB: 4096},
	}
}

// ShapeNamed finds a shape by its name.
func ShapeNamed(name string) (Shape, bool) {
	all := Shapes()
	i := slices.IndexFunc(all, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		return Shape{}, false
	}
	return all[i], true
}
