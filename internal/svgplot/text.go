package svgplot

import (
	"html"
	"strings"
	"unicode/utf8"
)

// advances are the widths of the characters from space to tilde in thousandths of the font's size. They are the ones of
// DejaVu Sans Bold, the widest font in the style. So a text is no wider than it is measured.
var advances = [...]uint16{
	349, 457, 521, 838, 696, 1002, 873, 307, 458, 458, 523, 838, 380, 416, 380, 366, 696, 696, 696, 696, 696, 696, 696,
	696, 696, 696, 400, 400, 838, 838, 838, 581, 1000, 774, 763, 734, 831, 684, 684, 821, 837, 373, 373, 775, 638, 996,
	837, 851, 733, 851, 771, 721, 683, 813, 774, 1104, 771, 725, 726, 458, 366, 458, 838, 500, 500, 675, 716, 593, 716,
	679, 436, 716, 712, 343, 343, 666, 343, 1042, 712, 688, 716, 716, 494, 596, 479, 712, 652, 924, 646, 652, 583, 712,
	366, 712, 838,
}

// The sizes of fonts, in pixels.
const (
	fontSize  = 12.0
	titleSize = 16.0
)

// ellipsis replaces the part of a text that is left out.
const ellipsis = "…"

// textWidth returns the most that a text of the usual size is wide.
func textWidth(s string) float64 { return TextWidth(s, fontSize) }

// TextWidth returns the most that a text of a size is wide, in pixels.
func TextWidth(s string, size float64) float64 {
	const (
		other = 1100 // ideographs are as wide as they are high
		emoji = 1400
	)
	sum := 0
	for _, r := range s {
		switch {
		case r >= ' ' && r <= '~':
			sum += int(advances[r-' '])
		case r >= 0x1F000:
			sum += emoji
		default:
			sum += other
		}
	}
	return float64(sum) * size / 1000
}

// shortened returns a name that is at most so wide. The middle is left out: names differ at their ends.
func shortened(name string, most, size float64) string {
	if TextWidth(name, size) <= most {
		return name
	}
	runes := []rune(name)
	for keep := len(runes) - 1; keep > 0; keep-- {
		short := string(runes[:(keep+1)/2]) + ellipsis + string(runes[len(runes)-keep/2:])
		if TextWidth(short, size) <= most {
			return short
		}
	}
	return ellipsis
}

// cutOff returns the beginning of a text that is at most so wide.
func cutOff(text string, most float64) string {
	if textWidth(text) <= most {
		return text
	}
	for text != "" {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
		if short := strings.TrimRight(text, " ,;:") + ellipsis; textWidth(short) <= most {
			return short
		}
	}
	return ellipsis
}

// maxLines is the number of lines of a subtitle.
const maxLines = 4

// wrapped breaks a text into lines that are at most so wide.
func wrapped(text string, most float64) (lines []string) {
	line := ""
	words := strings.Fields(text)
	for i, word := range words {
		word = shortened(word, most, fontSize)
		switch longer := line + " " + word; {
		case line == "":
			line = word
		case textWidth(longer) <= most:
			line = longer
		case len(lines) == maxLines-1:
			return append(lines, cutOff(line+" "+strings.Join(words[i:], " "), most))
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// plain makes a text fit for XML, which forbids some control characters. It is one line.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case r < ' ' || r == 0xFFFE || r == 0xFFFF:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func escape(s string) string { return html.EscapeString(plain(s)) }
