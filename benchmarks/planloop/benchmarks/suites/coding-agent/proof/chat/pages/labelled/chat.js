const log = document.querySelector('#log')
const field = document.querySelector('#message')
const socket = new WebSocket(`ws://${location.host}/ws`)

socket.addEventListener('message', (event) => {
  const { text } = JSON.parse(event.data)
  const line = document.createElement('li')
  line.textContent = text
  log.append(line)
})

document.querySelector('#say').addEventListener('submit', (event) => {
  event.preventDefault()
  socket.send(JSON.stringify({ text: field.value }))
  field.value = ''
})
