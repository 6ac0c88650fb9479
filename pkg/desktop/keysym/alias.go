package keysym

import (
	"fmt"
	"strings"
)

// aliases maps names of browsers (KeyboardEvent.key and .code), of Windows and
// macOS keyboards and of agent tools to X11 names or single characters. They
// are compared folded and win over X11's own names, so that "left", "leftarrow"
// and "hyphen" mean what everybody means by them.
func aliases() map[string]string {
	m := map[string]string{}
	for _, line := range []string{
		"BackSpace backspace bksp bs", "Tab tab", "Return return enter ret cr", "Escape escape esc",
		"Delete delete del forwarddelete", "Insert insert ins",
		"Prior pageup pgup pg_up prior", "Next pagedown pgdn pgdown pg_dn next", "Home home", "End end",
		"Up up arrowup uparrow cursorup", "Down down arrowdown downarrow cursordown",
		"Left left arrowleft leftarrow cursorleft", "Right right arrowright rightarrow cursorright",
		"Shift_L shift shiftl shiftleft lshift leftshift ⇧", "Shift_R shiftr shiftright rshift rightshift",
		"Control_L control ctrl ctl control_l ctrl_l controlleft ctrlleft lctrl lcontrol leftctrl leftcontrol ⌃",
		"Control_R ctrlr controlright ctrlright rctrl rcontrol rightctrl rightcontrol",
		"Alt_L alt altl altleft lalt leftalt option opt optionl optionleft loption ⌥",
		"Alt_R altr altright ralt rightalt optionr optionright roption",
		"ISO_Level3_Shift altgr altgraph alt_gr iso_level3_shift",
		"Super_L super superl win winl windows windowsl winleft lwin leftwin cmd cmdl command commandl commandleft lcmd meta metaleft osleft os gui ⌘",
		"Super_R superr winr windowsr winright rwin rightwin cmdr commandr commandright rcmd metaright osright",
		"Hyper_L hyper",
		"Menu menu contextmenu context_menu apps app application",
		"Caps_Lock capslock caps", "Num_Lock numlock", "Scroll_Lock scrolllock",
		"Print print printscreen prtsc prtscr prntscrn printscr snapshot", "Sys_Req sysrq sysreq",
		"Pause pause", "Break break ctrlbreak", "Help help", "Undo undo", "Redo redo again", "Find find",
		"Clear clear", "Cancel cancel", "Select select", "Execute execute",
		"KP_Enter numpadenter kpenter numenter", "KP_Add numpadadd numadd kpplus add", "KP_Subtract numpadsubtract numsub kpminus subtract",
		"KP_Multiply numpadmultiply nummult", "KP_Divide numpaddivide numdiv",
		"KP_Decimal numpaddecimal numdec decimal", "KP_Equal numpadequal", "KP_Separator numpadcomma separator",
		"XF86AudioMute audiovolumemute volumemute mute volume_mute", "XF86AudioLowerVolume audiovolumedown volumedown volume_down voldown",
		"XF86AudioRaiseVolume audiovolumeup volumeup volume_up volup", "XF86AudioPlay mediaplaypause playpause mediaplay play_pause",
		"XF86AudioPause mediapause", "XF86AudioStop mediastop", "XF86AudioPrev mediatrackprevious prevtrack mediaprev media_previous",
		"XF86AudioNext mediatracknext nexttrack medianext media_next", "XF86AudioMedia launchmediaplayer mediaselect launchmediaselect",
		"XF86Mail launchmail", "XF86Calculator launchapp2 launchapplication2 launchcalculator", "XF86MyComputer launchapp1 launchapplication1",
		"XF86HomePage browserhome", "XF86Search browsersearch", "XF86Favorites browserfavorites", "XF86Reload browserrefresh",
		"XF86Stop browserstop", "XF86Forward browserforward", "XF86Back browserback",
		"XF86MonBrightnessUp brightnessup", "XF86MonBrightnessDown brightnessdown", "XF86Eject eject",
		"XF86PowerOff power", "XF86Sleep sleep standby", "XF86WakeUp wakeup",
		"XF86Copy copykey", "XF86Cut cutkey", "XF86Paste pastekey",
		"Henkan_Mode convert", "Muhenkan nonconvert", "Hiragana_Katakana kanamode",
	} {
		names := strings.Fields(line)
		for _, alias := range names[1:] {
			m[alias] = names[0]
		}
	}
	characters(m)
	return m
}

// characters adds names of keys that write a character: those of US physical
// keys as browsers call them, and spoken ones.
func characters(m map[string]string) {
	for _, line := range []string{
		"- minus dash hyphen", "= equal equals", "[ bracketleft leftbracket", "] bracketright rightbracket",
		"\\ backslash intlbackslash", "; semicolon", "' quote apostrophe", "` backquote backtick grave", ", comma",
		". period dot", "/ slash", "+ plus",
	} {
		names := strings.Fields(line)
		for _, alias := range names[1:] {
			m[alias] = names[0]
		}
	}
	for _, alias := range []string{"space", "spacebar", "spc"} {
		m[alias] = " "
	}
	for c := 'a'; c <= 'z'; c++ {
		m["key"+string(c)] = string(c)
	}
	for i := range 10 {
		m[fmt.Sprintf("digit%d", i)] = fmt.Sprint(i)
		m[fmt.Sprintf("numpad%d", i)] = fmt.Sprintf("KP_%d", i)
		m[fmt.Sprintf("num%d", i)] = fmt.Sprintf("KP_%d", i)
	}
}
