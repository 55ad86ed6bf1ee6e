# docker build -t gossiprec . && docker run --rm -v "$PWD/runs:/work/runs" gossiprec
# runs the main scenario; append any other command: docker run ... gossiprec simulate scenarios/smoke.yaml
FROM python:3.11-slim
WORKDIR /work
COPY . .
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu .
ENTRYPOINT ["gossiprec"]
CMD ["simulate", "scenarios/rand_gossip.yaml", "--overwrite"]
