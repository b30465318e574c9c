#!/bin/sh
# A real desktop nobody sees: an X server, a session bus, Xfce's panel with its tray,
# and a notification server: dunst, or another program given as NOTIFIER.
#
#   desktop.sh DIR [THEME [NOTIFIER]]
#
# prints the variables that programs need to be on it, then "ready", and stays until
# its standard input ends. DIR is for its files; the logs are in DIR/log. HOME and the
# XDG folders are taken from the environment and have to be private.
set -eu
dir=$1 theme=${2:-Adwaita} notifier=${3:-dunst}
mkdir -p "$dir/log" "$dir/services"

started=
leave() {
	trap - EXIT
	for pid in $started; do kill "$pid" 2>/dev/null || true; done
	wait
}
trap leave EXIT
trap 'exit 1' HUP INT TERM

# run NAME COMMAND... starts a command whose output goes to its log.
run() {
	log=$dir/log/$1
	shift
	"$@" >"$log" 2>&1 </dev/null &
	started="$! $started"
}

# await WHAT COMMAND... waits until the command succeeds, 20 seconds at most.
await() {
	what=$1 tries=400
	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		if [ $tries = 0 ]; then
			echo "desktop: $what did not start; see $dir/log" >&2
			exit 1
		fi
		sleep 0.05
	done
}

# on_bus NAME succeeds when somebody owns that name.
on_bus() {
	dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetNameOwner "string:$1"
}

# Xvfb picks a free display and writes its number.
run x Xvfb -displayfd 1 -screen 0 900x600x24 -nolisten tcp -noreset
await Xvfb grep -q '^[0-9]' "$dir/log/x"
DISPLAY=:$(grep -m 1 '^[0-9]' "$dir/log/x")

# Of the machine's services the bus can start the panel's settings and nothing else:
# with all of them it would start a notification server of its own choice.
cp /usr/share/dbus-1/services/org.xfce.Xfconf.service "$dir/services/"
cat >"$dir/bus.conf" <<END
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=$dir/bus</listen>
  <auth>EXTERNAL</auth>
  <servicedir>$dir/services</servicedir>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
  </policy>
</busconfig>
END
DBUS_SESSION_BUS_ADDRESS=unix:path=$dir/bus
# Without a bridge to accessibility, dconf and remote files, which are not there.
NO_AT_BRIDGE=1 GSETTINGS_BACKEND=memory GIO_USE_VFS=local GTK_THEME=$theme
export DISPLAY DBUS_SESSION_BUS_ADDRESS NO_AT_BRIDGE GSETTINGS_BACKEND GIO_USE_VFS GTK_THEME
run bus dbus-daemon "--config-file=$dir/bus.conf" --nofork --nopidfile
await dbus-daemon on_bus org.freedesktop.DBus
run notifications dbus-monitor "interface='org.freedesktop.Notifications',member='Notify'"

settings=$XDG_CONFIG_HOME/xfce4/xfconf/xfce-perchannel-xml
mkdir -p "$settings"
cat >"$settings/xfce4-panel.xml" <<'END'
<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array">
    <value type="int" value="1"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=6;x=0;y=0"/>
      <property name="position-locked" type="bool" value="true"/>
      <property name="length" type="uint" value="100"/>
      <property name="size" type="uint" value="32"/>
      <property name="plugin-ids" type="array"><value type="int" value="1"/></property>
    </property>
  </property>
  <property name="plugins" type="empty">
    <property name="plugin-1" type="string" value="systray">
      <property name="hide-new-items" type="bool" value="false"/>
    </property>
  </property>
</channel>
END
run panel xfce4-panel --disable-wm-check
await xfce4-panel on_bus org.kde.StatusNotifierWatcher

cat >"$dir/dunstrc" <<'END'
[global]
    width = 340
    origin = top-right
    offset = 12x44
    font = Sans 10
    markup = full
    format = "<b>%s</b>\n%b"
    icon_position = left
    max_icon_size = 48
    idle_threshold = 0
    timeout = 60
    background = "#1f2a44"
    foreground = "#ffffff"
END
if [ "$notifier" = dunst ]; then
	run dunst dunst -config "$dir/dunstrc"
else
	run notifier "$notifier"
fi
await "$notifier" on_bus org.freedesktop.Notifications

for name in DISPLAY DBUS_SESSION_BUS_ADDRESS; do eval "echo $name=\$$name"; done
echo ready
# Stays for as long as there is somebody who may use it.
cat >/dev/null
