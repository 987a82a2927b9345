#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Creates the videos in this directory. Needs ffmpeg; the tests do not need it.
# 26 frames 40 ms apart, then 4 frames 200 ms apart. The container states no number of frames.
ffmpeg -y -loglevel error -f lavfi -i testsrc=s=160x120:r=25:d=2 \
    -vf "select='lt(n,25)+not(mod(n,5))'" -fps_mode vfr -c:v libx264 -pix_fmt yuv420p vfr.mkv
ffmpeg -y -loglevel error -i vfr.mkv -c copy vfr.mp4
# Four colours, with the rotation that phones set for portrait videos. Upright: lime and white at the
# top, red and blue at the bottom.
colours="color=red:s=160x120:d=1[a];color=lime:s=160x120:d=1[b]"
colours="$colours;color=blue:s=160x120:d=1[c];color=white:s=160x120:d=1[d]"
layout="[a][b]hstack[t];[c][d]hstack[u];[t][u]vstack"
ffmpeg -y -loglevel error -f lavfi -i "$colours;$layout" -c:v libx264 -pix_fmt yuv420p flat.mp4
ffmpeg -y -loglevel error -display_rotation 90 -i flat.mp4 -c copy portrait.mp4
rm flat.mp4
# One second of video (25 frames) with three seconds of audio. The container states the duration of
# the audio.
for format in mkv ts; do
    ffmpeg -y -loglevel error -f lavfi -i testsrc=s=160x120:r=25:d=1 \
        -f lavfi -i sine=440:r=8000:d=3 -c:v libx264 -crf 35 -pix_fmt yuv420p \
        -c:a aac -b:a 8k longer_audio.$format
done
